package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// fakeBwrap is a bubblewrap that fails as it is told to in a file, and else is the
// host's own.
func fakeBwrap(t *testing.T) (path string, fail func(script string)) {
	t.Helper()
	dir := t.TempDir()
	path, how := filepath.Join(dir, "bwrap"), filepath.Join(dir, "how")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %[1]s ] && . %[1]s\nexec /usr/bin/bwrap \"$@\"\n", how)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func(script string) {
		t.Helper()
		err := os.Remove(how)
		if script != "" {
			err = os.WriteFile(how, []byte(script), 0o644)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// says is a bubblewrap that dies with these words.
func says(text string) string { return "echo \"bwrap: " + text + "\" >&2; exit 1" }

// TestAShortageWeakensNothing: what fails while a host has no room, or when bubblewrap
// dies, fails; the next call is as confined as the first. Only a host that says no when
// it is first tried gets another backend.
func TestAShortageWeakensNothing(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	passing := []string{
		says("Creating new namespace failed: Resource temporarily unavailable"),
		says("Creating new namespace failed: No space left on device"),
		says("Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"),
		says("Creating new namespace failed: Cannot allocate memory"),
		says("Cannot open /proc/self/ns: Too many open files"),
		says("setting up uid map: Disk quota exceeded"),
		"ulimit -n 6", "exit 7", "kill -KILL $$",
	}
	lasting := []string{
		says("Unknown option --size"),
		says("No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces."),
		says("setting up uid map: Permission denied"),
		says("Failed to make / slave: Permission denied"),
		says("Can't mount proc on /newroot/proc: Operation not permitted"),
		says("loopback: Failed RTM_NEWADDR: Operation not permitted"),
	}
	backend := func(t *testing.T) (*linux.Backend, func(string)) {
		path, fail := fakeBwrap(t)
		b, err := linux.New(linux.Options{Bwrap: path, Unconfined: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b, fail
	}
	by := func(t *testing.T, b confine.Confiner) (string, error) {
		t.Helper()
		box, err := b.Prepare(context.Background(), p)
		if err != nil {
			return "", err
		}
		defer box.Close()
		return box.Enforced().Backend, nil
	}
	for i, how := range append(passing, lasting...) {
		t.Run(fmt.Sprintf("later-%d", i), func(t *testing.T) {
			b, fail := backend(t)
			if got, err := by(t, b); got != "bwrap" {
				t.Fatalf("before: %q, %v", got, err)
			}
			session := b.Session()
			defer session.Close()
			fail(how)
			for _, c := range []confine.Confiner{b, session} {
				if got, err := by(t, c); err == nil {
					t.Errorf("%s: a sandbox by %s", how, got)
				}
			}
			if b.Name() != "bwrap" {
				t.Errorf("%s: then it is %s", how, b.Name())
			}
			fail("")
			for _, c := range []confine.Confiner{b, session} {
				if got, err := by(t, c); got != "bwrap" {
					t.Errorf("after %s: %q, %v", how, got, err)
				}
			}
		})
	}
	for i, how := range passing {
		t.Run(fmt.Sprintf("first-%d", i), func(t *testing.T) {
			b, fail := backend(t)
			fail(how)
			_, err := by(t, b)
			if err == nil || strings.Contains(how, "Creating") && !confine.IsShortage(err) {
				t.Errorf("%s: %v", how, err)
			}
			fail("")
			if got, err := by(t, b); got != "bwrap" {
				t.Errorf("after %s: %q, %v", how, got, err)
			}
		})
	}
	for i, how := range lasting {
		t.Run(fmt.Sprintf("barred-%d", i), func(t *testing.T) {
			b, fail := backend(t)
			fail(how)
			if got, err := by(t, b); got == "bwrap" || err != nil {
				t.Errorf("%s: %q, %v", how, got, err)
			}
			if fail(""); b.Name() == "bwrap" {
				t.Errorf("%s: the choice is made again", how)
			}
		})
	}
}
