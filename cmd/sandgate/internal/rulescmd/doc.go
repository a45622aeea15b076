// Package rulescmd is the commands rules and why: standing rules, and what would become of a call.
package rulescmd
