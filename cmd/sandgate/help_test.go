package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// commandsOf returns every command below c that a person can run, and every group of commands.
func commandsOf(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		all = append(all, commandsOf(sub)...)
		if !sub.Hidden && (sub.Runnable() || sub.HasSubCommands()) {
			all = append(all, sub)
		}
	}
	return all
}

// TestHelp proves that each command says what it is for in one line, shows an
// example, and describes every flag.
func TestHelp(t *testing.T) {
	commands := commandsOf(root(newApp(nil, nil, nil)))
	if len(commands) == 0 {
		t.Fatal("the program has no commands")
	}
	for _, c := range commands {
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			args := append(strings.Fields(c.CommandPath())[1:], "--help")
			var out, errs bytes.Buffer
			if status := execute(newApp(strings.NewReader(""), &out, &errs), args); status != cli.ExitOK {
				t.Fatalf("exit status %d, stderr %q", status, &errs)
			}
			checkHelp(t, c, out.String())
		})
	}
}

var sentence = regexp.MustCompile(`^[A-Z].*[^.]$`)

func checkHelp(t *testing.T, c *cobra.Command, help string) {
	if !sentence.MatchString(c.Short) {
		t.Errorf("Short is %q, want a capital letter first and no full stop last", c.Short)
	}
	if !strings.Contains(c.Example, c.CommandPath()) {
		t.Errorf("Example %q does not show %q", c.Example, c.CommandPath())
	}
	if n := strings.Count(help, "\n"); n > 40 {
		t.Errorf("help has %d lines, want at most 40, which fit a screen", n)
	}
	for _, part := range []string{"Usage:\n", "Examples:\n"} {
		if !strings.Contains(help, part) {
			t.Errorf("help has no %q:\n%s", part, help)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if strings.TrimSpace(f.Usage) == "" {
			t.Errorf("--%s has no description", f.Name)
		}
	})
}
