package assemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/config"
)

// TestErrorsSayTheirKind: a program that embeds sandgate can tell what a person has to mend in
// the configuration from what this host lacks and from what is broken.
func TestErrorsSayTheirKind(t *testing.T) {
	write := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "sandgate.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	load := func(text string) (*config.Config, error) {
		c, _, err := Load(write(text), "")
		return c, err
	}
	_, unknown := load("sandbox: {paths: {w: {root: .}}}\nnonsense: 1\n")
	c, err := load("sandbox: {paths: {w: {root: .}}, limits: {memory: 1GiB}}\n")
	if err != nil {
		t.Fatal(err)
	}
	start := func(change func(*config.Config)) error {
		copied := *c
		change(&copied)
		r, err := Start(&copied, Options{})
		if err == nil {
			err = r.Close()
		}
		return err
	}
	for name, x := range map[string]struct {
		err  error
		kind Kind
		hint string
	}{
		"an unknown key": {unknown, Configuration, ""},
		"a system directory": {start(func(c *config.Config) {
			c.Sandbox.Paths = []config.Path{{Name: "w", Root: "/usr", Mode: config.ReadWrite}}
		}), Configuration, "--workspace"},
		"a backend of another system":     {CheckBackend("seatbelt"), Unavailable, "auto"},
		"a log that cannot be opened":     {start(func(c *config.Config) { c.Audit.Path = "/dev/null/log" }), Internal, ""},
		"an upstream proxy without a URL": {start(func(c *config.Config) { c.Egress.Upstream = "::" }), Configuration, "http://"},
	} {
		t.Run(name, func(t *testing.T) {
			var e *Error
			if !errors.As(x.err, &e) {
				t.Fatalf("%v (%T) is no error of this package", x.err, x.err)
			}
			if e.Kind != x.kind || !strings.Contains(e.Hint(), x.hint) {
				t.Errorf("%v: kind %d, hint %q; want %d, %q", e, e.Kind, e.Hint(), x.kind, x.hint)
			}
		})
	}
	if err := start(func(*config.Config) {}); err != nil {
		t.Errorf("nothing is wrong with that: %v", err)
	}
}
