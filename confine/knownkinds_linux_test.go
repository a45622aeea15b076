package confine

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestRememberedKindsAreTheKinds: whatever happens to the paths of a profile, what is
// remembered of them is what looking again would give.
func TestRememberedKindsAreTheKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	names := []string{"/", "/etc/passwd", at("a"), at("deep/er/b"), at("link/b"), at("c")}
	k := newKnownKinds(names)
	reread := 0
	for i, change := range []func() error{
		func() error { return nil },
		func() error { return os.Mkdir(at("a"), 0o700) },
		func() error { return os.Remove(at("a")) },
		func() error { return os.WriteFile(at("a"), nil, 0o600) },
		func() error { return os.MkdirAll(at("deep/er"), 0o700) },
		func() error { return os.WriteFile(at("deep/er/b"), nil, 0o600) },
		func() error { return os.Rename(at("deep"), at("deeper")) },
		func() error { return os.MkdirAll(at("deep/er/b"), 0o700) },
		func() error { return os.Symlink("deeper/er", at("link")) },
		func() error { return os.Remove(at("link")) },
		func() error { return os.Symlink("deep/er", at("link")) },
		func() error { return os.Symlink("x", at("c")) },
		func() error { return os.Rename(at("a"), at("c")) },
		func() error { return os.Chmod(at("deep"), 0) },
		func() error { return os.Chmod(at("deep"), 0o700) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		for _, pause := range []time.Duration{0, 2 * settling, 0} {
			time.Sleep(pause)
			before := k.facts.Kinds
			got, err := k.look()
			if err != nil {
				t.Fatal(err)
			}
			want, err := kindsAt(names)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("after change %d and %v: %+v, want %+v", i, pause, got, want)
			}
			if reflect.ValueOf(before).Pointer() != reflect.ValueOf(got.Kinds).Pointer() {
				reread++
			}
		}
	}
	if reread > 35 || reread < 15 {
		t.Errorf("read again %d times of 45", reread)
	}
}
