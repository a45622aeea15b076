package linux_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestWhatAPersonMakesBeforeTheNextStartStays: a supervisor is killed while a program plants.
// What a person makes under a protected name after that, and before the next start, is the
// person's; what the program made is taken, also what the person has only written to, and a
// configuration of git that the person's git has written anew. If the process that notes when
// the sandbox ended is killed too, all of it is taken.
func TestWhatAPersonMakesBeforeTheNextStartStays(t *testing.T) {
	const mark = "SANDGATE_TEST_MEANWHILE"
	if ws, store, inner := strings.Cut(os.Getenv(mark), ":"); inner {
		plantUntilKilled(t, ws, store)
	}
	temporaryOfItsOwn(t)
	for _, noted := range []bool{true, false} {
		ws, kept := confinetest.Workspace(t), t.TempDir()
		if err := os.Chmod(kept, 0o700); err != nil {
			t.Fatal(err)
		}
		supervisor := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		supervisor.Env = append(os.Environ(), mark+"="+ws+":"+kept)
		if err := supervisor.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return exists(ws + "/ready") })
		victims := []int{supervisor.Process.Pid}
		if !noted {
			victims = append(slices.DeleteFunc(proctree.Children(supervisor.Process.Pid), func(pid int) bool { return !isWarden(pid) }), victims...)
			if len(victims) != 2 {
				t.Fatalf("%d wardens", len(victims)-1)
			}
		}
		for _, pid := range victims {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		_ = supervisor.Wait()
		until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) == 0 })
		if noted {
			until(t, func() bool {
				names, _ := filepath.Glob(kept + "/running/sandbox-*")
				b, _ := os.ReadFile(strings.Join(names, ""))
				return bytes.Contains(b, []byte(`{"ended":`))
			})
		}
		time.Sleep(50 * time.Millisecond) // the time of a file is that of the kernel's last tick, 10 ms ago at most: people are slower
		if out, err := exec.Command("/bin/sh", "-c", "cd "+ws+` && mkdir .idea && echo x > .idea/workspace.xml && echo x > .envrc && ln -s /var/lib link &&
			echo x >> .profile && git -C made config user.name x`).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		store, err := quarantine.Open(kept)
		if err != nil {
			t.Fatal(err)
		}
		planted, err := tripwire.New(store).Recover()
		if err != nil {
			t.Fatal(err)
		}
		for name, persons := range map[string]bool{
			".idea": true, ".envrc": true, "link": true, ".vscode": false, ".profile": false, "toolslink": false, "made/.git/config": false,
		} {
			want := persons && noted
			if got := exists(filepath.Join(ws, name)); got != want {
				t.Errorf("noted %v: %s is there: %v, want %v", noted, name, got, want)
			}
			if got := slices.ContainsFunc(planted, func(p confine.Planted) bool { return p.Path == filepath.Join(ws, name) }); got == want {
				t.Errorf("noted %v: %s is said to be taken: %v", noted, name, got)
			}
		}
		if left, _ := os.ReadDir(store.Running()); len(left) != 0 {
			t.Errorf("journals stay: %v", left)
		}
	}
}

// plantUntilKilled runs the program, and stays.
func plantUntilKilled(t *testing.T, ws, kept string) {
	b, err := linux.NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	store, err := quarantine.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	b.Use(tripwire.New(store))
	p := confinetest.Profile(t, ws)
	p.Protect = []string{".git/hooks", ".git/config", ".vscode", ".idea", ".envrc", ".profile"}
	box, err := b.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", `mkdir .vscode; echo x > .vscode/tasks.json; echo x > .profile; ln -s /var/lib toolslink
			git init -q made && printf '[core]\n\tfsmonitor = x\n' >> made/.git/config; touch ready; exec sleep 600`}, Dir: ws, Env: []string{"PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stderr: os.Stderr})
	select {}
}
