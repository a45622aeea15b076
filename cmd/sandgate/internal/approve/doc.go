// Package approve is the command approve: a person answers requests as they come, on a screen or as lines.
package approve
