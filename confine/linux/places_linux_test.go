//go:build cgo

package linux_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/confine/linux"
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
			b, err := linux.New(linux.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			profile := confinetest.Profile(t, ws)
			o := confinetest.Shell(t, b.Session(), profile, ws, "echo run; cat /etc/shadow; echo x > new && cat new")
			if o.Out != "run\nx\n" || !strings.Contains(o.Err, "shadow") || b.Name() != "landlock" {
				t.Errorf("%+v by %s", o, b.Name())
			}
			only, err := linux.New(linux.Options{Backend: "bwrap"})
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
	_, err = newLandlock(t, linux.LandlockOptions{}).Prepare(context.Background(), confinetest.Profile(t, ws))
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
		confinetest.RunOnHost(t, newLandlock(t, linux.LandlockOptions{}))
	}
}

// TestProcessesOfOtherContainersAreNotCounted: the kernel counts every process of a user
// against the limit of one (setrlimit(2)), and a container does not see those of others that
// run as the same number. A tool has its share all the same, and no more than that.
func TestProcessesOfOtherContainersAreNotCounted(t *testing.T) {
	place, err := barred.Find("restricted")
	if err != nil {
		t.Fatal(err)
	}
	const mark = "SANDGATE_TEST_OTHER_CONTAINERS"
	if os.Getenv(mark) == "" {
		if os.Geteuid() != 0 {
			t.Skipf("uid %d can make a process namespace only in a user namespace, where the kernel counts apart", os.Geteuid())
		}
		others := exec.Command("/usr/bin/python3", "-c", "import threading, time\nfor _ in range(200): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nprint('there', flush=True); time.sleep(600)")
		others.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(place.UID), Gid: uint32(place.UID)}, Pdeathsig: syscall.SIGKILL}
		out, err := others.StdoutPipe()
		if err == nil {
			err = others.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = others.Wait() }()
		defer func() { _ = others.Process.Kill() }()
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		launcher := filepath.Join(t.TempDir(), barred.Name)
		self, err := os.Executable()
		if err == nil {
			err = os.Symlink(self, launcher)
		}
		if err != nil {
			t.Fatal(err)
		}
		inner := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", launcher, place.Name, self, "-test.run="+barred.Again(t), "-test.v")
		inner.Env = append(os.Environ(), mark+"=inside", "HOME=/nonexistent")
		if out, err := inner.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.Pids = 40
	const forks = "import os, sys, time\nfor _ in range(int(sys.argv[1])):\n    if os.fork() == 0: time.sleep(float(sys.argv[2])); os._exit(0)"
	l := newLandlock(t, linux.LandlockOptions{})
	if o := confinetest.Exec(t, context.Background(), l, p, ws, nil, "/usr/bin/python3", "-c", forks, "20", "0.2"); o.Cause != confine.Exited || o.ExitCode != 0 {
		t.Errorf("twenty processes under a limit of 40: %+v %q", o.Result, o.Err)
	}
	if o := confinetest.Exec(t, context.Background(), l, p, ws, nil, "/usr/bin/python3", "-c", forks, "2000", "30"); o.Cause != confine.PidsLimit {
		t.Errorf("two thousand: %+v %q", o.Result, o.Err)
	}
}

// TestAddressesInAnOlderContainer: also where an older Docker bars process_vm_writev(2).
func TestAddressesInAnOlderContainer(t *testing.T) {
	place, err := barred.Find("old-docker-user")
	if err != nil {
		t.Fatal(err)
	}
	if inPlace(t, place) {
		addressesAreThoseOfOutside(t)
	}
}
