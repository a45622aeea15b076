package linux_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestJavaIsAttachedToItsOwnProcesses: a sandbox without mounts has the socket in /tmp by which tools attach to a
// Java process, for its own processes and while these live. It gets none for a process outside, no other file of such a
// name, and keeps none for a number that another process may get.
func TestJavaIsAttachedToItsOwnProcesses(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), p, ws)
	outside := exec.Command("sleep", "600")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Process.Kill(); _ = outside.Wait() }()

	k.gets("n = '/tmp/.java_pid'; child = subprocess.Popen(['sleep', '600']); me = n + str(os.getpid()); its = n + str(child.pid)", "ok")
	k.gets("s = socket.socket(socket.AF_UNIX); s.bind(me + '.tmp'); s.listen(); os.chmod(me + '.tmp', 0o600); os.rename(me + '.tmp', me)", "ok")
	k.gets("c = socket.socket(socket.AF_UNIX); c.connect(me); c.send(b'jcmd'); r = s.accept()[0].recv(9)", "b'jcmd'")
	k.gets("i = socket.socket(socket.AF_UNIX); i.bind(its); i.listen()", "ok")

	for _, pid := range []string{fmt.Sprint(outside.Process.Pid), fmt.Sprint(os.Getpid()), "1", "0", "-1", "0' + str(os.getpid()) + '", "' + str(os.getpid()) + 'x", "4194305", ""} {
		k.gets("x = socket.socket(socket.AF_UNIX); x.bind(n + '"+pid+"')", "EROFS")
		k.gets("x = socket.socket(socket.AF_UNIX); x.bind('/tmp/other'); x.close()", "ok")
		k.gets("os.rename('/tmp/other', n + '"+pid+"')", "EROFS")
		k.gets("os.unlink('/tmp/other')", "ok")
	}
	k.gets("os.unlink(me)", "ok")
	for _, other := range []string{"os.mkdir(me)", "os.symlink('/etc', me)", "os.mkfifo(me)", "open(me, 'w')", "open('/tmp/f', 'w').close(); os.rename('/tmp/f', me)",
		"os.link(its, me)"} {
		k.gets(other, "EROFS")
	}

	its := k.does("r = its")
	if _, err := os.Lstat(its); err != nil {
		t.Fatal(err)
	}
	// Its number is not another's before its parent has asked for it, and the name is gone by then.
	k.gets("child.kill(); os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)", "ok")
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Lstat(its); os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is left of a process that has ended", its)
		}
		time.Sleep(10 * time.Millisecond)
	}
	k.gets("x = socket.socket(socket.AF_UNIX); x.bind(its)", "EROFS")
	k.gets("child.wait(); s.close(); s = socket.socket(socket.AF_UNIX); s.bind(me); s.listen(); r = me", k.does("r = me"))
	me := k.does("r = me")
	k.end()
	if _, err := os.Lstat(me); !os.IsNotExist(err) {
		t.Errorf("%s is left after the call (%v)", me, err)
	}
}
