// Package review ends drafts: a person keeps them, in whole or in part, or drops them. It has commands and
// sessions that are to be reviewed work on one.
package review
