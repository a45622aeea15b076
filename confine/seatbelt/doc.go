// Package seatbelt builds sandboxes on macOS with sandbox-exec. Where a host has no
// Seatbelt, New says so.
package seatbelt
