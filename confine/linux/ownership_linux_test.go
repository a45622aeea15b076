package linux_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// withMounts runs the test again where it may mount, and reports whether it does there.
func withMounts(t *testing.T) bool {
	t.Helper()
	const mark = "SANDGATE_TEST_MOUNTS"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	argv := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", append(argv, "--", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// placed gives a directory that lies somewhere to the workspace, and where that is.
func placed(t *testing.T, base, ws, where, name string) string {
	t.Helper()
	dir := map[string]string{
		"above": base, "equal": ws, "below": ws + "/" + name, "deep": ws + "/a/b/" + name, "linked": base + "/" + name, "mounted": base + "/" + name, "apart": base + "/" + name,
	}[where]
	mkdir(t, dir)
	switch where {
	case "linked":
		if err := os.Symlink(dir, ws+"/"+name); err != nil {
			t.Fatal(err)
		}
	case "mounted":
		mkdir(t, ws+"/"+name)
		if err := unix.Mount(dir, ws+"/"+name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(ws+"/"+name, unix.MNT_DETACH) })
	}
	return dir
}

// belongings is what a tree holds: names, inodes, modes, links and content.
func belongings(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		content, _ := os.ReadFile(path)
		link, _ := os.Readlink(path)
		fmt.Fprintf(&b, "%s %d %o %s %q\n", path, st.Ino, st.Mode, link, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A household is a user's files, sandgate's own and a workspace, which lie somewhere to
// each other.
type household struct {
	t                    *testing.T
	base, ws, home, mine string
	old                  string // what an earlier version has in quarantine
	store                *quarantine.Store
	profile              sandboxprofile.Profile
}

// forEachHousehold runs a test where the user's HOME and sandgate's own directory lie above,
// at and below the workspace, and lead into it by a link and by a mount.
func forEachHousehold(t *testing.T, test func(h *household)) {
	if !withMounts(t) {
		return
	}
	for _, home := range []string{"above", "equal", "below", "deep", "linked", "mounted"} {
		for _, state := range []string{"above", "below", "deep", "in-home", "linked", "mounted"} {
			t.Run(home+"/"+state, func(t *testing.T) { test(newHousehold(t, home, state)) })
		}
	}
}

func newHousehold(t *testing.T, home, state string) *household {
	h := &household{t: t, base: confinetest.Workspace(t)}
	h.ws = h.base + "/ws"
	mkdir(t, h.ws)
	h.home = placed(t, h.base, h.ws, home, "home")
	h.mine = h.home + "/.local/state/sandgate"
	if state != "in-home" {
		h.mine = placed(t, h.base, h.ws, state, "state") + "/sandgate"
	}
	var err error
	if h.store, err = quarantine.Open(h.mine + "/quarantine"); err != nil {
		t.Fatal(err)
	}
	h.old = h.mine + "/quarantine/items/20260101T000000.000Z-abcdef"
	for name, content := range map[string]string{
		h.home + "/.ssh/config": "Host x", h.home + "/.bashrc": "true", h.home + "/.claude/settings.json": "{}", h.home + "/.gitconfig": "", h.home + "/.codex/a": "",
		h.ws + "/own/.vscode/settings.json": "{}", h.ws + "/own/.envrc": "true", h.mine + "/audit.jsonl": "{}\n",
		h.old + "/manifest.jsonl": `{"n":0,"path":"` + h.ws + `/own/.envrc","root":"` + h.ws + `","reason":"x","kind":"file"}` + "\n", h.old + "/0": "x",
	} {
		mkdir(t, filepath.Dir(name))
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{h.home + "/.codex/out", h.old + "/out"} {
		if err := os.Symlink("/var/lib/elsewhere", link); err != nil {
			t.Fatal(err)
		}
	}
	p := plantedProfile(t, h.ws)
	p.Scratch = []string{"/tmp"}
	if home != "equal" {
		p.Scratch = append(p.Scratch, h.home)
	}
	if state != "above" || home == "equal" {
		p.Paths[h.mine] = 0
	}
	h.profile = p.Normalize()
	return h
}

func (h *household) run(c confine.Confiner, script string) confinetest.Outcome {
	return confinetest.Exec(h.t, context.Background(), c, h.profile, h.ws, nil, "/bin/bash", "-c", script)
}

// untouched fails where a call that makes nothing, by each of these, changes anything.
func (h *household) untouched(by ...confine.Confiner) {
	h.t.Helper()
	before := belongings(h.t, h.base)
	for _, c := range by {
		if o := h.run(c, "true"); o.ExitCode != 0 || len(o.Planted) != 0 {
			h.t.Fatalf("a call that makes nothing: %+v %s", o.Result, o.Err)
		}
		if now := belongings(h.t, h.base); stripJournals(now) != stripJournals(before) {
			h.t.Fatalf("before:\n%s\nafter:\n%s", before, now)
		}
	}
	// The same files by another name, where there is one.
	if o := h.run(by[0], "cat "+h.ws+"/state/sandgate/audit.jsonl; ls "+h.ws+"/state/sandgate; true"); o.Out != "" {
		h.t.Errorf("sandgate's own files are seen: %q", o.Out)
	}
}

// whole fails if anything of the user's has moved, or there are other items in quarantine
// than so many.
func (h *household) whole(items int) {
	h.t.Helper()
	if list, err := h.store.List(); err != nil || len(list) != items {
		h.t.Errorf("%d items, %v", len(list), err)
	}
	for _, gone := range []string{h.home + "/.ssh/config", h.home + "/.codex/out", h.ws + "/own/.envrc", h.old + "/out"} {
		if _, err := os.Lstat(gone); err != nil {
			h.t.Error(err)
		}
	}
}

// TestACallTakesNothingThatItDidNotMake: wherever the user's HOME and sandgate's own
// directory lie to the workspace, a call that makes nothing finds all of the user's
// files where they were, and one that plants something loses that and no more.
func TestACallTakesNothingThatItDidNotMake(t *testing.T) {
	forEachHousehold(t, func(h *household) {
		b := newBwrap(h.t)
		b.Use(tripwire.New(h.store, h.mine))
		pool := linux.NewWarmPool(b)
		defer pool.Close()
		h.untouched(b, pool, pool, b)
		for _, c := range []confine.Confiner{b, pool} {
			o := h.run(c, "mkdir -p new/.vscode && echo x > new/.vscode/settings.json && echo kept > new/file")
			if len(o.Planted) != 1 || o.Planted[0].Path != h.ws+"/new/.vscode" || o.Planted[0].Kept == "" {
				h.t.Fatalf("a plant: %+v %+v %s", o.Planted, o.Result, o.Err)
			}
			if _, err := os.Stat(h.ws + "/new/file"); err != nil {
				h.t.Error(err)
			}
		}
		h.whole(3)
	})
}

// TestNothingOfTheUsersMovesUnderABroker is the same where a broker makes the changes:
// the plant does not come to be, and nothing is taken.
func TestNothingOfTheUsersMovesUnderABroker(t *testing.T) {
	forEachHousehold(t, func(h *household) {
		l := newLandlock(h.t, linux.LandlockOptions{})
		l.Use(tripwire.New(h.store, h.mine))
		h.untouched(l, l)
		for range 2 {
			o := h.run(l, "mkdir -p new/.vscode; echo x > new/.vscode/settings.json; echo kept > new/file")
			if len(o.Planted) != 0 || len(o.Refused) == 0 {
				h.t.Fatalf("a plant: %+v %s", o.Result, o.Err)
			}
			if _, err := os.Stat(h.ws + "/new/.vscode"); err == nil {
				h.t.Error("it was made")
			}
			if _, err := os.Stat(h.ws + "/new/file"); err != nil {
				h.t.Error(err)
			}
		}
		h.whole(1)
	})
}

// stripJournals leaves out what a living sandbox keeps in the quarantine.
func stripJournals(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.Contains(line, "/quarantine/running/sandbox-") {
			b.WriteString(line)
		}
	}
	return b.String()
}
