// Package approvals is the commands approvals and status: requests that wait, remembered answers, and how the supervisor is.
package approvals
