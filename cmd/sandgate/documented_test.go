package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// TestDocumentedCommandsExist: every command that README.md and the documents show in a
// line of its own is one that this program has, with these flags and as many arguments.
func TestDocumentedCommandsExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			command, ok := strings.CutPrefix(line, "    sandgate ")
			if !ok {
				continue
			}
			n++
			words, err := shellwords.NewParser().Parse(strings.SplitN(command, " # ", 2)[0])
			if err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(file), line, err)
				continue
			}
			if err := accepted(words); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(file), line, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands found", n)
	}
	for _, wrong := range [][]string{{"sreve"}, {"serve", "--no-such-flag"}, {"config", "trust", "a", "b"}} {
		if accepted(wrong) == nil {
			t.Errorf("%q would be taken for a command", wrong)
		}
	}
}

// accepted does everything with a command line but run it.
func accepted(words []string) error {
	root := newApp(nil, nil, nil).root()
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if c.DisableFlagParsing {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}
