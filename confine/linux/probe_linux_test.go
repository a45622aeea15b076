//go:build cgo

package linux

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/barred"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// TestProbesCanFail: a probe that an ordinary user's own rights answer shows nothing of a
// sandbox. Where nothing confines, each of these gives another answer.
func TestProbesCanFail(t *testing.T) {
	place, err := barred.Find("no-userns")
	if err != nil {
		t.Fatal(err)
	}
	if !barred.Inside(t, place) {
		return
	}
	noFilter := func([]string) ([]byte, error) { return nil, errors.New("not here") }
	bare, err := newLandlock(LandlockOptions{Seccomp: &Filters{Base: noFilter}}, landlock.Version{})
	if err != nil {
		t.Fatal(err)
	}
	nothing := &Unconfined{host: bare}
	defer nothing.Close()
	confined, err := NewLandlock(LandlockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer confined.Close()
	for _, x := range []struct {
		by   confine.Confiner
		want confine.Status
	}{{nothing, confine.Absent}, {confined, confine.Held}} {
		found := tryActs(context.Background(), "sandbox", x.by, slices.Concat(hostActs, probeActs))
		for _, name := range []string{"files", "read-only files", "landlock: files", "landlock: read-only files", "landlock: signals", "landlock: processes", "landlock: modes"} {
			if x.by == confined && name == "files" {
				continue // there what is not listed exists, and cannot be opened
			}
			i := slices.IndexFunc(found, func(f confine.Finding) bool { return f.Name == name })
			if i < 0 || found[i].Status != x.want {
				t.Errorf("%s by %s: %+v", name, x.by.Name(), found)
				break
			}
		}
	}
}
