package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// inline is a command in the middle of a sentence or a table.
var inline = regexp.MustCompile("`sandgate ([a-z][^`]*)`")

// TestDocumentedCommandsExist: every command that README.md and the documents show in a
// line of its own, or README.md in a sentence, is one that this program has, with these
// flags and as many arguments.
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
		lines := slices.Collect(strings.Lines(string(text)))
		if filepath.Base(file) == "README.md" {
			for _, command := range inline.FindAllStringSubmatch(string(text), -1) {
				lines = append(lines, "    sandgate "+command[1])
			}
		}
		for _, line := range lines {
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
	root := root(newApp(nil, nil, nil))
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
