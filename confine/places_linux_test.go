//go:build cgo

package confine_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/internal/barred"
)

func TestMain(m *testing.M) {
	initbin.RunIfInit() // of a build without an embedded init
	barred.Run(m)
}

// inPlace runs the rest of a test again in the place, as barred.Inside does.
func inPlace(t *testing.T, p barred.Place) bool {
	t.Helper()
	if p.NeedsRoot() && os.Geteuid() != 0 {
		t.Skipf("only root can make the place %s", p.Name)
	}
	return barred.Inside(t, p)
}

// TestPlacesAreConfined: where bubblewrap builds nothing, for whatever reason, auto takes
// the Landlock backend unasked, and a call runs confined.
func TestPlacesAreConfined(t *testing.T) {
	for _, p := range barred.Places() {
		if p.Name == "half-keys" || p.Name == "read-only" { // tried below; has no directory to work in
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			if !inPlace(t, p) {
				return
			}
			ws := confinetest.Workspace(t)
			b, err := confine.New(confine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			profile := confinetest.Profile(t, ws)
			o := confinetest.Shell(t, b.Session(), profile, ws, "echo run; cat /etc/shadow; echo x > new && cat new")
			if o.Out != "run\nx\n" || !strings.Contains(o.Err, "shadow") || b.Name() != "landlock" {
				t.Errorf("%+v by %s", o, b.Name())
			}
			only, err := confine.New(confine.Options{Backend: "bwrap"})
			if err != nil {
				t.Fatal(err)
			}
			defer only.Close()
			var cannot *confine.Unenforceable
			if _, err := only.Prepare(context.Background(), profile); !errors.As(err, &cannot) || cannot.Hint == "" || cannot.Part == "the sandbox" {
				t.Errorf("bwrap by name: %v", err)
			}
		})
	}
}

// TestKeysThatCannotBeLeft: a filter that lets programs use keys, but not leave those of
// the session, is no place to run in. Its twins are the containers above, which
// refuse every use of keys.
func TestKeysThatCannotBeLeft(t *testing.T) {
	place, err := barred.Find("half-keys")
	if err != nil {
		t.Fatal(err)
	}
	if !inPlace(t, place) {
		return
	}
	ws := confinetest.Workspace(t)
	_, err = newLandlock(t, confine.LandlockOptions{}).Prepare(context.Background(), confinetest.Profile(t, ws))
	var cannot *confine.Unenforceable
	if !errors.As(err, &cannot) || !strings.Contains(cannot.Part, "keyring") || !strings.Contains(cannot.Reason, "is let through") {
		t.Errorf("%v", err)
	}
}

// TestPlacesKeepEveryClaim: the suite of claims in a container. What root of one may do
// is tried in real ones (scripts/containers).
func TestPlacesKeepEveryClaim(t *testing.T) {
	place, err := barred.Find("restricted")
	if err != nil {
		t.Fatal(err)
	}
	if inPlace(t, place) {
		confinetest.RunOnHost(t, newLandlock(t, confine.LandlockOptions{}))
	}
}
