package hostfs

import (
	"fmt"
	"strings"
)

// SomeOf names at most three of names, and how many more there are: a long list
// hides what it is about.
func SomeOf(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
