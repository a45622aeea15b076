package linux_test

import (
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestMeasuringIsNotSeen: a program that watches its TMPDIR sees what programs do there, and not that the
// directory is measured.
func TestMeasuringIsNotSeen(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.Scratch = 1 << 30
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), p, ws)
	k.gets("d = os.environ['TMPDIR']; w = libc.inotify_init1(os.O_NONBLOCK); r = libc.inotify_add_watch(w, d.encode(), 0xfff) > 0", "True")
	k.gets("time.sleep(1); r = os.read(w, 9999)", "EAGAIN")
	k.gets("os.listdir(d); r = len(os.read(w, 9999)) > 0", "True")
	k.gets("open(d + '/file', 'w').write('x'); r = b'file' in os.read(w, 9999)", "True")
}
