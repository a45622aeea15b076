// Package auditcmd is the command audit: it verifies, searches, exports and replays the audit log.
package auditcmd
