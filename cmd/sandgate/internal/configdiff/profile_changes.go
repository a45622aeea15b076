package configdiff

import (
	"fmt"
	"io"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// InUse is the operand that stands for the configuration.
const InUse = "config"

func PrintProfileChanges(out io.Writer, changes []sandboxprofile.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(out, "Nothing differs.")
		return err
	}
	marks := map[sandboxprofile.Effect]string{sandboxprofile.Less: "-", sandboxprofile.More: "+", sandboxprofile.Both: "~", sandboxprofile.Same: "="}
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %-13s%s\n", marks[c.Effect], strings.ReplaceAll(c.Axis, "_", " "), approval.EscapeLine(changeText(c)))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// changeText is one change in a line. An element of a set is there or not.
func changeText(c sandboxprofile.Change) string {
	switch {
	case c.Before == "" || c.After == "":
		return c.Name
	case c.Axis == "paths":
		return c.Before + " -> " + c.After + "  " + c.Name
	}
	return strings.TrimSpace(strings.ReplaceAll(c.Name, "_", " ") + " " + c.Before + " -> " + c.After)
}
