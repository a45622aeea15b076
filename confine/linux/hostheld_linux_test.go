package linux_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestTheHostIsNotHeldUp: what a filter keeps from every tool because a host program would
// not see it or would wait for it: content that is exchanged without a time, a lease on a
// file, and what the kernel keeps of asynchronous reading for everybody. Each has a
// neighbour that works, or that the kernel itself answers.
func TestTheHostIsNotHeldUp(t *testing.T) {
	const moveExtents = `
import fcntl, struct
a, b = (os.open(n, os.O_RDWR) for n in ('mine', 'other'))
fcntl.ioctl(a, 0xc028660f, struct.pack('IIQQQQ', 0, b, 0, 0, 1, 0))` // EXT4_IOC_MOVE_EXT
	const ioctl = "import fcntl, struct\nf = os.open('mine', os.O_RDWR)\nfcntl.ioctl(f, NUMBER, bytearray(struct.pack('QQ', 0, 1 << 16) + bytes(64)))"
	asks := func(number string) string { return strings.ReplaceAll(ioctl, "NUMBER", number) }
	const raw = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nif l.syscall(CALL) < 0: raise OSError(ctypes.get_errno(), '')"
	aio := strings.ReplaceAll(raw, "CALL", strconv.Itoa(unix.SYS_IO_SETUP)+", 65536, ctypes.byref(ctypes.c_ulong())")
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			mine, other := strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)
			for name, content := range map[string]string{"mine": mine, "other": other} {
				if err := os.WriteFile(ws+"/"+name, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			copies := "ENOTTY" // Landlock's tools have ioctls of terminals alone
			if c.Name() == "bwrap" {
				copies = "ok"
			}
			for act, want := range map[string]string{
				moveExtents:        "ENOTTY",
				asks("0xc0c0586d"): "ENOTTY", // XFS_IOC_SWAPEXT
				asks("0x40285881"): "ENOTTY", // XFS_IOC_EXCHANGE_RANGE
				asks("0x40086602"): "ENOTTY", // FS_IOC_SETFLAGS
				asks("0x80086601"): copies,   // FS_IOC_GETFLAGS
				asks("0xc020660b"): copies,   // FS_IOC_FIEMAP
				asks("0x541b"):     "ok",     // FIONREAD
				"import fcntl\nfcntl.fcntl(os.open('mine', os.O_RDWR), 1024, 1)":       "EACCES", // F_SETLEASE, F_WRLCK
				"import fcntl\nfcntl.fcntl(os.open('mine', os.O_RDONLY), 1024, 0)":     "EACCES", // F_RDLCK
				"import fcntl\nfcntl.lockf(os.open('mine', os.O_RDWR), fcntl.LOCK_EX)": "ok",
				aio: "ENOSYS",
				"import subprocess\nassert subprocess.run(['cp', '--reflink=auto', 'mine', 'copy']).returncode == 0":                            "ok",
				"import sqlite3\nd = sqlite3.connect('db'); d.execute('create table t (x)'); d.execute('insert into t values (1)'); d.commit()": "ok",
			} {
				if got := confinetest.Python(t, c, confinetest.Profile(t, ws), ws, act); got != want {
					t.Errorf("%s: %s, want %s", act, got, want)
				}
			}
			for name, content := range map[string]string{"mine": mine, "copy": mine, "other": other} {
				if b, err := os.ReadFile(ws + "/" + name); err != nil || string(b) != content {
					t.Errorf("%s is not what it was: %.20q %v", name, b, err)
				}
			}
		})
	}
}
