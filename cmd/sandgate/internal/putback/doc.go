// Package putback has files put back by this program in a sandbox, as a call of its own.
package putback
