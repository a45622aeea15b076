package linux_test

import (
	"os"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestLinksToPrivateNamesLeadNowhere: without mounts a program makes a link in the workspace to a name in its TMPDIR that does not exist.
// Nothing comes to have that name, by no call, and the link does not outlive the sandbox, wherever it was moved.
func TestLinksToPrivateNamesLeadNowhere(t *testing.T) {
	ws := confinetest.Workspace(t)
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws), ws)
	k.gets("T = os.environ['TMPDIR']; N = T + '/none'; os.mkdir(T + '/dir'); open(T + '/file', 'w').close(); os.symlink('dir', T + '/link')", "ok")
	for _, to := range []string{"T", "T + '/dir'", "T + '/file'", "T + '/link'", "T + '/dir/none'", "T + '/none/deeper'", "T + '/dir/../none'", "os.path.dirname(T) + '/none'", "'/tmp/none'"} {
		k.gets("os.symlink("+to+", 'refused')", "EACCES")
	}
	k.gets("os.mkdir('d'); os.mkdir('e'); os.symlink(N, 'd/link'); os.symlink(N, 'stays'); os.lchown('stays', os.getuid(), os.getgid()); r = os.readlink('stays') == N", "True")
	for _, makes := range []string{
		"os.mkdir(N)", "open(N, 'w')", "open('stays', 'w')", "os.symlink('dir', N)", "os.mkfifo(N)", "os.rename(T + '/dir', N)", "os.rename(T + '/file', N)",
		"os.rename(T + '/link', N)", "os.link(T + '/file', N)", "socket.socket(socket.AF_UNIX).bind(N)",
	} {
		k.gets(makes, "EACCES")
	}
	k.gets("os.mkdir(T + '/another'); os.rename(T + '/dir', T + '/moved')", "ok") // the twin
	// Moved, renamed, linked: each name goes.
	k.gets("os.rename('d', 'e/moved'); os.rename('stays', 'renamed'); os.link('renamed', 'e/second', follow_symlinks=False)", "ok")
	k.gets("os.symlink('e', 'within'); r = sorted(os.listdir('e'))", "['moved', 'second']")
	k.end()
	for _, gone := range []string{"e/moved/link", "renamed", "e/second", "stays"} {
		if _, err := os.Lstat(ws + "/" + gone); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", gone, err)
		}
	}
	for _, stays := range []string{"e/moved", "within"} {
		if _, err := os.Lstat(ws + "/" + stays); err != nil {
			t.Error(err)
		}
	}
}
