package confine_test

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
	"github.com/sandgate/sandgate/confine/quarantine"
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

// TestACallTakesNothingThatItDidNotMake: wherever the user's HOME and sandgate's own
// directory lie to the workspace, a call that makes nothing finds all of the user's
// files where they were, and one that plants something loses that and no more.
func TestACallTakesNothingThatItDidNotMake(t *testing.T) {
	if !withMounts(t) {
		return
	}
	for _, home := range []string{"above", "equal", "below", "deep", "linked", "mounted"} {
		for _, state := range []string{"above", "below", "deep", "in-home", "linked", "mounted"} {
			t.Run(home+"/"+state, func(t *testing.T) {
				base := confinetest.Workspace(t)
				ws := base + "/ws"
				mkdir(t, ws)
				at := placed(t, base, ws, home, "home")
				mine := at + "/.local/state/sandgate"
				if state != "in-home" {
					mine = placed(t, base, ws, state, "state") + "/sandgate"
				}
				store, err := quarantine.Open(mine + "/quarantine")
				if err != nil {
					t.Fatal(err)
				}
				old := mine + "/quarantine/items/20260101T000000.000Z-abcdef"
				for name, content := range map[string]string{
					at + "/.ssh/config": "Host x", at + "/.bashrc": "true", at + "/.claude/settings.json": "{}", at + "/.gitconfig": "", at + "/.codex/a": "",
					ws + "/own/.vscode/settings.json": "{}", ws + "/own/.envrc": "true", mine + "/audit.jsonl": "{}\n",
					old + "/manifest.jsonl": `{"n":0,"path":"` + ws + `/own/.envrc","root":"` + ws + `","reason":"x","kind":"file"}` + "\n", old + "/0": "x",
				} {
					mkdir(t, filepath.Dir(name))
					if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for _, link := range []string{at + "/.codex/out", old + "/out"} {
					if err := os.Symlink("/var/lib/elsewhere", link); err != nil {
						t.Fatal(err)
					}
				}
				p := plantedProfile(t, ws)
				p.Scratch = []string{"/tmp"}
				if home != "equal" {
					p.Scratch = append(p.Scratch, at)
				}
				if state != "above" || home == "equal" {
					p.Paths[mine] = 0
				}
				p = p.Normalize()
				b := newBwrap(t)
				b.Use(confine.NewGuard(store, mine))
				cells := confine.NewCells(b)
				defer cells.Close()
				run := func(c confine.Confiner, script string) confinetest.Outcome {
					return confinetest.Exec(t, context.Background(), c, p, ws, nil, "/bin/bash", "-c", script)
				}
				before := belongings(t, base)
				for _, c := range []confine.Confiner{b, cells, cells, b} {
					if o := run(c, "true"); o.ExitCode != 0 || len(o.Planted) != 0 {
						t.Fatalf("a call that makes nothing: %+v %s", o.Result, o.Err)
					}
					if now := belongings(t, base); stripJournals(now) != stripJournals(before) {
						t.Fatalf("before:\n%s\nafter:\n%s", before, now)
					}
				}
				if home == "mounted" || state == "mounted" { // the same files by another name
					o := run(b, "cat "+ws+"/state/sandgate/audit.jsonl; ls "+ws+"/state/sandgate; true")
					if o.Out != "" {
						t.Errorf("sandgate's own files are seen: %q", o.Out)
					}
				}
				for _, c := range []confine.Confiner{b, cells} {
					o := run(c, "mkdir -p new/.vscode && echo x > new/.vscode/settings.json && echo kept > new/file")
					if len(o.Planted) != 1 || o.Planted[0].Path != ws+"/new/.vscode" || o.Planted[0].Kept == "" {
						t.Fatalf("a plant: %+v %+v %s", o.Planted, o.Result, o.Err)
					}
					if _, err := os.Stat(ws + "/new/file"); err != nil {
						t.Error(err)
					}
				}
				if items, err := store.List(); err != nil || len(items) != 3 {
					t.Errorf("%d items, %v", len(items), err)
				}
				for _, gone := range []string{at + "/.ssh/config", at + "/.codex/out", ws + "/own/.envrc", old + "/out"} {
					if _, err := os.Lstat(gone); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
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
