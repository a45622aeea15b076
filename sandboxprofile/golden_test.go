package sandboxprofile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	. "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden compiles the profile of each testdata/*.txtar for the facts beside
// it, and compares with the sections that the file has. It runs on every system.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p Profile
	var f Facts
	changed := false
	for i, section := range archive.Files {
		switch section.Name {
		case "profile.json":
			strict(t, section.Data, &p)
			continue
		case "facts.json":
			strict(t, section.Data, &f)
			continue
		}
		got := output(t, section.Name, p, f)
		if d := cmp.Diff(string(section.Data), got); d != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", section.Name, d)
		} else if d != "" {
			archive.Files[i].Data, changed = []byte(got), true
		}
	}
	if changed {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func strict(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// output is one section: what a compiler gives, or its error.
func output(t *testing.T, section string, p Profile, f Facts) string {
	t.Helper()
	var lines []string
	var err error
	switch section {
	case "bwrap":
		var args []string
		args, err = bwrap.Compile(p, f)
		lines = argLines(args)
	case "landlock":
		var rules []landlock.Rule
		rules, err = landlock.Compile(p, f)
		for _, r := range rules {
			lines = append(lines, r.String())
		}
	case "seccomp":
		var text string
		text, err = seccomp.Listing(p.Syscalls)
		lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	case "sbpl":
		var text string
		text, err = sbpl.Compile(p, f, goldenVars(p))
		lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	case "warnings":
		lines = Warnings(p)
	default:
		t.Fatalf("unknown section %q", section)
	}
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// goldenVars is what a launcher would give for one sandbox.
func goldenVars(p Profile) sbpl.Vars {
	v := sbpl.Vars{Tag: "sandgate-golden", ProxyPort: 18080, Scratch: map[string]string{}}
	for _, dir := range p.Scratch {
		v.Scratch[dir] = "/private/var/sandgate/golden" + dir
	}
	return v
}

// argLines puts each option on a line with its values.
func argLines(args []string) []string {
	var lines []string
	for _, a := range args {
		if strings.HasPrefix(a, "--") || len(lines) == 0 {
			lines = append(lines, a)
		} else {
			lines[len(lines)-1] += " " + a
		}
	}
	return lines
}
