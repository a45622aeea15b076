package linux_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestHostsThatCannotConfine: each lack has its part and its remedy, from the
// probe and from the first sandbox alike. Hosts that really bar user namespaces
// are scripted in cmd/sandgate.
func TestHostsThatCannotConfine(t *testing.T) {
	for _, x := range []struct {
		name, script string
		mode         os.FileMode
		part, reason string
	}{
		{name: "missing", part: "bubblewrap", reason: "not found"},
		{name: "writable by others", script: "exit 0", mode: 0o777, part: "bubblewrap", reason: "can be changed by others"},
		{name: "too old", script: `[ "$1" = --version ] && echo bubblewrap 0.3.1 || { echo "bwrap: Unknown option --size" >&2; exit 1; }`, mode: 0o755, part: "bubblewrap", reason: "nknown option"},
		{name: "barred", script: `[ "$1" = --version ] && echo bubblewrap 0.8.0 || { echo "bwrap: No permissions to create new namespace" >&2; exit 1; }`, mode: 0o755, part: "user namespaces", reason: "No permissions"},
		{name: "silent", script: `exit 1`, mode: 0o755, reason: "ended before the sandbox was ready"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bwrap")
			if x.script != "" {
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+x.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, x.mode); err != nil {
					t.Fatal(err)
				}
			}
			err := prepareWith(t, path)
			var u *confine.Unenforceable
			if x.part != "" && (!errors.As(err, &u) || u.Part != x.part || u.Hint == "") {
				t.Errorf("error %#v, want an Unenforceable with part %q and a hint", err, x.part)
			}
			if err == nil || !strings.Contains(err.Error(), x.reason) {
				t.Errorf("error %v, want %q in it", err, x.reason)
			}
			if findings := linux.Probe(context.Background(), path); confine.Ready(findings) {
				t.Errorf("the probe says ready: %+v", findings)
			}
		})
	}
	if err := prepareWith(t, ""); err != nil {
		t.Errorf("this host: %v", err)
	}
}

func prepareWith(t *testing.T, path string) error {
	b, err := linux.NewBwrap(path)
	if err != nil {
		return err
	}
	defer b.Close()
	box, err := b.Prepare(context.Background(), confinetest.Profile(t, ""))
	if err == nil {
		box.Close()
	}
	return err
}
