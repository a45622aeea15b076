package confinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
