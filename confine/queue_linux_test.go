package confine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestProgramsCannotLockTheQueue: who is granted to read the queue for names
// cannot stop the brokers of its user. Another file there it can lock. The queue lies where
// no other user can have made its name.
func TestProgramsCannotLockTheQueue(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	const lock = `import errno, fcntl, os, sys
for name in sys.argv[1:]:
    for how in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try:
            fcntl.flock(os.open(name, how), fcntl.LOCK_EX | fcntl.LOCK_NB)
            print('locked', end=' ')
        except OSError as e: print(errno.errorcode[e.errno], end=' ')
    try: os.chmod(name, 0o600); print('changed')
    except OSError as e: print(errno.errorcode[e.errno])
`
	t.Setenv("XDG_STATE_HOME", confinetest.Workspace(t))
	l, ws := newLandlock(t, confine.LandlockOptions{}), confinetest.Workspace(t)
	other, err := os.CreateTemp("/tmp", "sandgate-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other.Name())
	defer other.Close()
	p := confinetest.Profile(t, ws)
	script("true")(t, l, p, ws) // by now the queue is there
	own := confine.QueuePlaces()[0]
	if st, err := os.Stat(own); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the queue lies in %s: %v %v", own, st, err)
	}
	queue := fmt.Sprintf("%s/.sandgate-names-%d", own, os.Geteuid())
	// The two files alone: in /tmp itself others come and go while rules are made.
	p.Paths[queue], p.Paths[other.Name()], p.Scratch = sandboxprofile.Read, sandboxprofile.Read, []string{"/home/tool"}
	o := confinetest.Exec(t, context.Background(), l, p, ws, nil, "/usr/bin/python3", "-c", lock, queue, other.Name())
	got := strings.Split(strings.TrimSpace(o.Out), "\n")
	if len(got) != 2 || strings.Contains(got[0], "locked") || strings.Contains(got[0], "changed") || !strings.HasPrefix(got[0], "EACCES ") || !strings.HasPrefix(got[1], "locked ") {
		t.Errorf("the queue and another file: %q %q", got, o.Err)
	}
	if st, err := os.Stat(queue); err != nil || st.Mode().Perm() != 0o200 {
		t.Errorf("the queue: %v %v", st, err)
	}
}
