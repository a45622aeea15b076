package confinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// devicesStay: the devices that a sandbox has are the host's files. Root owns them, and a tool
// of root's that could close /dev/null would close it to everybody. Each mode asked for here is
// the one that there is, so that nothing happens where a sandbox fails this.
func devicesStay(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "/dev/" + device
		info, err := os.Stat(path)
		if err != nil {
			continue // a container may have fewer
		}
		for _, act := range []string{"os.chmod(%q, 0o%o)", "os.chmod('/proc/self/fd/%%d' %% os.open(%q, os.O_PATH), 0o%o)"} {
			act = fmt.Sprintf(act, path, info.Mode().Perm())
			if got := Python(t, c, p, ws, act); got != "EROFS" && got != "EPERM" {
				t.Errorf("%s: %s", act, got)
			}
		}
	}
	if got := Python(t, c, p, ws, "open('/dev/null', 'w').write('x'); open('/dev/urandom', 'rb').read(8); open('own', 'w').close(); os.chmod('own', 0o600)"); got != "ok" {
		t.Errorf("what is to go: %s", got)
	}
}

// setID: a set-group-id bit on a directory says which group new files get. On a file,
// like a set-user-id bit, it would give the user's rights to everybody who runs it.
func setID(t *testing.T, c confine.Confiner) {
	ws, listed := Workspace(t), Workspace(t)
	p := Profile(t, ws)
	p.Paths[listed] = sandboxprofile.Read
	for _, dir := range []string{ws, listed} {
		write(t, dir+"/file", "x")
		if err := os.Mkdir(dir+"/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("dir", dir+"/link"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("file", dir+"/filelink"); err != nil {
			t.Fatal(err)
		}
	}
	outside := stat(t, listed+"/dir")
	const bits = "; r = os.stat('dir').st_mode & 0o7777\nif r != 0o2775: raise OSError(5, '')\nos.chmod('dir', 0o775)\nif os.stat('dir').st_mode & 0o7777 not in (0o775, 0o2775): raise OSError(5, '')"
	for _, way := range []string{
		"os.chmod('dir', %s)", "os.chmod('./link/../dir/', %s)", "os.chmod('link', %s)", fmt.Sprintf("os.chmod(%q, %%s)", ws+"/dir"),
		"os.fchmod(os.open('dir', os.O_RDONLY), %s)", "os.chmod('dir', %s, dir_fd=os.open('.', os.O_RDONLY))",
		"d = os.open('dir', os.O_RDONLY); os.chmod('/proc/self/fd/%%d' %% d, %s)",
	} {
		if got := Python(t, c, p, ws, fmt.Sprintf(way, "0o2775")+bits); got != "ok" {
			t.Errorf(way+": %s", "0o2775", got)
		}
		for _, mode := range []string{"0o4775", "0o6775"} {
			if got := Python(t, c, p, ws, fmt.Sprintf(way, mode)); got != "EPERM" {
				t.Errorf(way+": %s, want EPERM", mode, got)
			}
		}
	}
	for act, want := range map[string]string{
		"os.chmod('file', 0o755)": "ok", "os.chmod('file', 0o2755)": "EPERM", "os.chmod('file', 0o2644)": "EPERM", "os.chmod('file', 0o4755)": "EPERM",
		"os.chmod('filelink', 0o2755)": "EPERM", "os.fchmod(os.open('file', os.O_RDWR), 0o2755)": "EPERM",
		"os.fchmod(os.open('new', os.O_CREAT | os.O_RDWR, 0o755), 0o2755)": "EPERM",
		"os.open('made', os.O_CREAT | os.O_WRONLY, 0o2755)":                "EPERM", "os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o2755)": "EPERM",
		"os.mknod('made', 0o102755)": "EPERM", "os.mkfifo('pipe'); os.chmod('pipe', 0o2755)": "EPERM",
		"os.chmod('missing', 0o2755)": "ENOENT", "os.chmod('file/x', 0o2755)": "ENOTDIR",
		"os.mkdir('madedir', 0o2775)": "ok", // the kernel leaves the bit out
		"f = open('gone', 'w'); os.unlink('gone'); os.fchmod(f.fileno(), 0o2755)":                    "EPERM",
		"os.mkdir('gone'); d = os.open('gone', os.O_RDONLY); os.rmdir('gone'); os.fchmod(d, 0o2775)": "ok",
	} {
		if got := Python(t, c, p, ws, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	for _, act := range []string{fmt.Sprintf("os.chmod(%q, 0o2775)", listed+"/dir"), fmt.Sprintf("os.fchmod(os.open(%q, os.O_RDONLY), 0o2775)", listed+"/dir")} {
		if got := Python(t, c, p, ws, act); got != "EROFS" && got != "EPERM" && got != "EACCES" {
			t.Errorf("%s: %s", act, got)
		}
	}
	for _, command := range []string{"mkdir -m 2775 shared && test -g shared", "mkdir plain && chmod g+s plain && test -g plain && mkdir plain/below && test -g plain/below"} {
		if o := Shell(t, c, p, ws, command); o.ExitCode != 0 {
			t.Errorf("%s: %+v", command, o)
		}
	}
	// While a name is now a directory and now a file, the file does not get the bit.
	const flips = `import os, threading
os.mkdir('a'); open('b', 'w').close()
done = False
def flip():
    while not done:
        os.rename('a', 'x'); os.rename('b', 'a'); os.rename('a', 'b'); os.rename('x', 'a')
t = threading.Thread(target=flip); t.start()
given = refused = 0
for i in range(100000):
    try: os.chmod('a', 0o2755); given += 1
    except PermissionError: refused += 1
    except FileNotFoundError: pass
    if given and refused and i >= 200: break
done = True; t.join()
print(given > 0, refused > 0)`
	wantOut(t, Exec(t, t.Context(), c, p, ws, nil, "/usr/bin/python3", "-c", flips), "True True")
	_ = filepath.WalkDir(ws, func(path string, e os.DirEntry, err error) error {
		info, serr := os.Lstat(path)
		if err != nil || serr != nil {
			t.Error(path, err, serr)
		} else if m := info.Mode(); m&os.ModeSetuid != 0 || m&os.ModeSetgid != 0 && !m.IsDir() {
			t.Errorf("%s is left with mode %v", path, m)
		}
		return nil
	})
	if got := stat(t, listed+"/dir"); got != outside {
		t.Errorf("what may only be read changed from %s to %s", outside, got)
	}
}

// othersWrite: no program lets other users of the machine write to something that they could not write to,
// whatever it makes, whose mode or access list it sets, and in which order. What it asks for otherwise, it gets.
func othersWrite(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	if err := os.Mkdir(ws+"/open", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(ws+"/open", 0o777); err != nil {
		t.Fatal(err)
	}
	hasACL := unix.Setxattr(ws+"/open", "user.x", []byte("x"), 0) == nil
	const mode, acl = "; print(oct(os.stat(%q).st_mode & 0o7777))", "import struct\nacl = struct.pack('<I' + 'HHI' * 3, 2, 1, 7, 0xffffffff, 4, 5, 0xffffffff, 0x20, 7, 0xffffffff)\n"
	for _, x := range []struct{ act, name, want string }{
		{"os.umask(0); os.mkdir('d', 0o777); os.chmod('d', 0o775)", "d", "0o775"},
		{"os.umask(0); os.mkdir('e', 0o707)", "e", "0o705"},
		{"os.umask(0o20); os.makedirs('x/.git/objects', 0o707)", "x/.git/objects", "0o705"},
		{"os.umask(0); os.close(os.open('f', os.O_CREAT | os.O_WRONLY, 0o606))", "f", "0o604"},
		{"os.umask(0); fd = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o606); os.fchmod(fd, 0o606); import ctypes; assert ctypes.CDLL(None).linkat(-100, b'/proc/self/fd/%d' % fd, -100, b'g', 0x400) == 0", "g", "0o604"},
		{"os.umask(0); os.mkfifo('pipe', 0o606)", "pipe", "0o604"},
		{"import socket\nos.umask(0o70); s = socket.socket(socket.AF_UNIX); s.bind('s'); os.chmod('s', 0o606)", "s", "0o604"},
		{"os.chmod('d', 0o777)", "d", "0o775"}, {"os.chmod('d', 0o1777)", "d", "0o1775"}, {"os.chmod('d', 0o2777)", "d", "0o2775"},
		{"os.fchmod(os.open('d', os.O_RDONLY), 0o3777)", "d", "0o3775"}, {"os.chmod('f', 0o777)", "f", "0o775"},
		{"os.fchmod(os.open('f', os.O_RDONLY), 0o666)", "f", "0o664"},
		{"import ctypes\nctypes.CDLL(None).syscall(452, -100, b'f', 0o606, 0)", "f", ""}, // fchmodat2: an older kernel does not have it
		{"os.rename('d', 'h'); os.chmod('h', 0o777)", "h", "0o775"},
		// What everybody may write already stays so, until somebody takes it away.
		{"os.chmod('open', 0o1777)", "open", "0o1777"}, {"os.chmod('open', 0o755)", "open", "0o755"}, {"os.chmod('open', 0o777)", "open", "0o775"},
		// The umask that a program has is the one that it sees.
		{"old = os.umask(0o27); r = (os.umask(0), os.umask(old)); assert r[0] == 0o27, r; os.close(os.open('i', os.O_CREAT | os.O_WRONLY, 0o666))", "i", "0o644"},
	} {
		got := Python(t, c, p, ws, x.act+fmt.Sprintf(mode, x.name))
		if got, _, _ = strings.Cut(got, "\n"); got != x.want && (x.want != "" || got != "0o604" && got != "0o664") {
			t.Errorf("%s: %s of %s, want %s", x.act, got, x.name, x.want)
		}
	}
	for act, want := range map[string]string{
		acl + "os.setxattr('h', 'system.posix_acl_access', acl); print(oct(os.stat('h').st_mode & 0o777))":                                           "0o755",
		acl + "os.setxattr('h', 'system.posix_acl_default', acl); os.umask(0); os.mkdir('h/in', 0o777); print(oct(os.stat('h/in').st_mode & 0o777))": "0o755",
		"os.setxattr('h', 'user.x', b'value'); print(os.getxattr('h', 'user.x'))":                                                                    "b'value'",
		"os.setxattr(os.open('f', os.O_RDONLY), 'user.y', b'', os.XATTR_REPLACE)":                                                                    "ENODATA",
	} {
		got, _, _ := strings.Cut(Python(t, c, p, ws, act), "\n")
		if got != want && got != "ENOTSUP" || got == want && !hasACL {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	// Nobody else comes to private directories.
	const private = "import tempfile\nd = tempfile.mkdtemp(); os.chmod(d, 0o1777); os.umask(0); os.mkdir(d + '/x', 0o777); print([oct(os.stat(x).st_mode & 0o7777) for x in (d, d + '/x')])"
	if got, _, _ := strings.Cut(Python(t, c, p, ws, private), "\n"); got != "['0o1777', '0o777']" && got != "['0o1777', '0o755']" {
		t.Errorf("a private directory: %s", got)
	}
	for _, command := range []string{
		"mkdir -m 777 k && install -d -m 777 l && umask 0 && mkdir m", "mkdir -p n/o && chmod -R a+rwX n && cp -a n q && tar cf - n | (mkdir r && cd r && tar xpf -)",
		"export GIT_CONFIG_NOSYSTEM=1; umask 0; git init -q --shared rep && git -C rep -c user.name=x -c user.email=x commit -q --allow-empty -m x",
	} {
		if o := Shell(t, c, p, ws, command); o.ExitCode != 0 {
			t.Errorf("%s: %+v\n%s", command, o, o.Err)
		}
	}
	_ = filepath.WalkDir(ws, func(path string, e os.DirEntry, err error) error {
		info, serr := os.Lstat(path)
		if err != nil || serr != nil {
			t.Error(path, err, serr)
		} else if info.Mode()&0o002 != 0 && info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is left with mode %v", path, info.Mode())
		}
		return nil
	})
}
