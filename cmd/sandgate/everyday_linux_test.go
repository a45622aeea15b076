//go:build cgo

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/barred"
)

// An everyday is something that people and agents do all day in a repository.
type everyday struct {
	name, script string // for sh, in a copy of a repository that has one commit
	want         string // in its output
}

// commit is git with a name, which a private HOME does not have.
const commit = "git -c user.name=a -c user.email=a@example.org "

var everydays = []everyday{
	// Files of the workspace
	{"new-file", "echo hello > new && cat new", "hello"},
	{"append", "echo more >> file && cat file", "text\nmore"},
	{"overwrite", "echo other > sub/file && cat sub/file", "other"},
	{"directories", "mkdir -p a/b/c && rmdir a/b/c && ls a", "b"},
	{"rename", "mv file renamed && cat renamed", "text"},
	{"replace", "echo new > sub/tmp && mv sub/tmp sub/file && cat sub/file", "new"},
	{"remove", "rm -r sub && ls", "file"},
	{"chmod", "chmod +x sub/script && ./sub/script", "ran"},
	{"touch", "touch -d 2020-01-01 sub/file && stat -c %y sub/file", "2020-01-01"},
	{"copy-with-times", "cp -a sub sub2 && cmp sub/file sub2/file && echo same", "same"},
	{"symlink", "ln -s ../file sub/link && cat sub/link", "text"},
	{"hard-link", "ln sub/file sub/other && stat -c %h sub/other", "2"},
	{"sed", "sed -i s/text/changed/ file && cat file", "changed"},
	{"perl-in-place", "perl -pi -e s/text/changed/ sub/file && cat sub/file", "changed"},
	{"patch", "printf -- '--- file\\n+++ file\\n@@ -1 +1 @@\\n-text\\n+patched\\n' | patch -s -p0 && cat file", "patched"},
	{"truncate", "truncate -s 100 sub/file && stat -c %s sub/file", "100"},
	{"fifo", "mkfifo sub/pipe && (echo through > sub/pipe &) && cat sub/pipe", "through"},
	{"tar", "tar cf sub/all.tar file && mkdir sub/out && tar xpf sub/all.tar -C sub/out && cat sub/out/file", "text"},
	{"gzip", "gzip -k sub/file && gzip -dc sub/file.gz", "text"},
	{"install", "install -m 755 sub/script sub/installed && ./sub/installed", "ran"},
	{"flock", "flock sub/lock echo locked", "locked"},
	{"find-delete", "touch sub/a.o sub/b.o && find sub -name '*.o' -delete && ls sub", "file"},
	// git
	{"git-status", "git status --short && git log --oneline", "first"},
	{"git-commit", "echo more >> file && git add file && " + commit + "commit -qm second && git log -1 --format=%s", "second"},
	{"git-branch", "git checkout -q -b topic && git branch --show-current", "topic"},
	{"git-stash", "echo more >> file && " + commit + "stash && cat file", "text"},
	{"git-init", "git init -q inner && git -C inner status", "No commits yet"},
	{"git-clone", "git clone -q . sub/clone && cat sub/clone/file", "text"},
	{"git-clone-tmp", "git clone -q . /tmp/clone-$$ && cat /tmp/clone-$$/file", "text"},
	{"git-shallow", "git clone -q --depth 1 file://$PWD sub/clone && cd sub/clone && echo more >> file && " + commit + "commit -qam second && git log --oneline && git rev-parse --is-shallow-repository", "second\n.*first\ntrue"},
	{"git-dir", "cd sub && GIT_DIR=../.git GIT_WORK_TREE=.. git status --short && GIT_DIR=../.git git log --oneline", "first"},
	{"git-worktree", "git worktree add -q ../ws/tree 2>&1 && cat tree/file", "text"},
	// Places for what is temporary, and HOME
	{"tmp", "echo x > /tmp/x-$$ && cat /tmp/x-$$", "x"},
	{"mktemp", "f=$(mktemp) && echo made > $f && cat $f", "made"},
	{"tempfile", "python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(\"w+\"); f.write(\"tmp\"); f.seek(0); print(f.read())'", "tmp"},
	{"var-tmp", "echo x > /var/tmp/x-$$ && cat /var/tmp/x-$$", "x"},
	{"here-document", "cat <<E\nhere\nE\n", "here"},
	{"dev-shm", "echo shared > /dev/shm/x-$$ && cat /dev/shm/x-$$", "shared"},
	{"semaphores", "python3 -c 'import multiprocessing as m; l = m.Lock(); l.acquire(); l.release(); print(\"held\")'", "held"},
	{"shared-memory", "python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=10); m.buf[0] = 7; print(\"byte\", m.buf[0]); m.close(); m.unlink()'", "byte 7"},
	{"home", "mkdir -p ~/.cache && echo kept > ~/.cache/x && cat ~/.cache/x", "kept"},
	// Building and running
	{"gcc", "printf '#include <stdio.h>\\nint main(void){puts(\"compiled\");return 0;}\\n' > sub/p.c && cc -o sub/p sub/p.c && ./sub/p", "compiled"},
	{"make", "printf 'sub/made: file\\n\\tcp file sub/made\\n' > sub/Makefile && make -s -f sub/Makefile && cat sub/made", "text"},
	{"venv", "python3 -m venv --without-pip sub/venv && sub/venv/bin/python -c 'print(\"in venv\")'", "in venv"},
	{"byte-code", "echo 'print(\"imported\")' > sub/mod.py && cd sub && python3 -c 'import mod' && ls __pycache__", "mod.*pyc"},
	{"sqlite", "python3 -c 'import sqlite3; c = sqlite3.connect(\"sub/db\"); c.execute(\"create table t(x)\"); c.execute(\"insert into t values(5)\"); c.commit(); print(c.execute(\"select x from t\").fetchall())'", `\[\(5,\)\]`},
	{"node-files", "node -e 'const f=require(\"fs\"); f.mkdirSync(\"sub/n/m\",{recursive:true}); f.writeFileSync(\"sub/n/m/x\",\"written\"); f.renameSync(\"sub/n/m/x\",\"sub/n/y\"); console.log(f.readFileSync(\"sub/n/y\",\"utf8\"))'", "written"},
	// Sockets and terminals
	{"node-server", "node -e 'const h=require(\"http\"); const s=h.createServer((q,r)=>r.end(\"served\")).listen(0,\"127.0.0.1\",()=>h.get({port:s.address().port},r=>r.on(\"data\",d=>{console.log(String(d)); process.exit()})))' 2>&1", "served"},
	{"own-name", `python3 -c 'import socket; print("known", socket.gethostbyname(socket.gethostname()) != "")'`, "known True"},
	{"address-family", `python3 -c 'import socket; print(socket.getaddrinfo("127.0.0.1", 80, socket.AF_INET, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)[0][4])'`, `'127.0.0.1', 80`},
	{"processors", "cat /sys/devices/system/cpu/online", "0"},
	{"python-server", "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname()); c.send(b\"sent\"); print(s.accept()[0].recv(9))'", "sent"},
	{"unix-socket", "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"sub/s\"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"sub/s\"); c.send(b\"sent\"); print(s.accept()[0].recv(9))'", "sent"},
	{"asyncio", "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print(\"slept\")'", "slept"},
	{"pty", "python3 -c 'import pty; pty.spawn([\"echo\", \"in a terminal\"])'", "in a terminal"},
	// Processes
	{"proc-self", "readlink /proc/self/exe && ls /proc/self/fd && grep -c Name /proc/self/status", "readlink"},
	{"ps", "ps -o comm= -p $$", "sh"},
	{"descriptors", "bash -c 'cat <(echo substituted)' && echo in | cat /dev/stdin", "substituted\nin"},
	{"jobs", "sleep 300 & kill $! && wait $! || echo ended $?; seq 4 | xargs -P 2 -n 1 echo item", "ended 143\n(.*\n)*item"},
	{"timeout", "timeout 30 env echo in time && nohup echo nohup 2>&1", "in time"},
}

// TestEveryday runs what people do all day. All of it works with bubblewrap, and where
// no bubblewrap can build anything.
func TestEveryday(t *testing.T) {
	if len(everydays) != 60 {
		t.Fatalf("%d rows", len(everydays))
	}
	for _, place := range []string{"", "restricted"} {
		name := place
		if place == "" {
			name = "here"
		}
		t.Run(name, func(t *testing.T) {
			h := newEverydayHost(t, place)
			for _, e := range everydays {
				t.Run(e.name, func(t *testing.T) {
					if own, err := os.Hostname(); e.name == "own-name" && err == nil {
						if _, err := net.LookupHost(own); err != nil {
							t.Skip("this machine does not know its own name outside either, as a container without network:", err)
						}
					}
					h.try(t, e)
				})
			}
		})
	}
}

// TestEverydayTable: docs/everyday.md is what TestEveryday runs.
func TestEverydayTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(everydayText)
	for _, e := range everydays {
		script := strings.NewReplacer("|", `\|`, "\n", " ↵ ").Replace(strings.TrimSuffix(e.script, "\n"))
		fmt.Fprintf(&b, "| %s | `%s` |\n", strings.ReplaceAll(e.name, "-", " "), script)
	}
	const page = "../../docs/everyday.md"
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the test says (%v): go test ./cmd/sandgate -run TestEverydayTable -update", page, err)
	}
}

const everydayText = `# Everyday commands that work in the sandbox

Each command works in ` + "`sandgate run -- sh -c '...'`" + ` without a flag, in a new repository with one commit, both with bubblewrap and without
namespaces ([backends.md](backends.md)). Exception: in a container with a read-only image, commands cannot create files directly in
/tmp. The test ` + "`TestEveryday`" + ` runs the commands and writes this table. The sign ↵ stands for a new line.

| what | commands |
|---|---|
`

// An everydayHost runs sandgate in one place, by the user of that place.
type everydayHost struct {
	place    barred.Place // the zero value: the machine as it is
	dir      string       // everybody can reach it, and the user of the place owns it
	sandgate string
}

func newEverydayHost(t *testing.T, place string) everydayHost {
	t.Helper()
	dir, err := os.MkdirTemp("", "everyday") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := everydayHost{dir: dir, sandgate: filepath.Join(dir, "sandgate")}
	if place != "" {
		if h.place, err = barred.Find(place); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err == nil {
		err = copyProgram(self, h.sandgate) // this program is sandgate under that name
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	home := filepath.Join(dir, "home")
	if err == nil {
		err = os.Mkdir(home, 0o700)
	}
	for _, owned := range []string{dir, home} {
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(owned, h.place.UID, h.place.UID)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	const repository = `set -e
mkdir repo && cd repo && git init -q .
mkdir sub && echo text > file && echo text > sub/file && printf '#!/bin/sh\necho ran\n' > sub/script
git add . && ` + commit + `commit -qm first`
	if out, err := h.command("sh", "-c", repository).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return h
}

// command is a program in the place, outside of any sandbox.
func (h everydayHost) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if h.place.Name != "" {
		cmd = h.place.Command(name, args...)
	}
	home := filepath.Join(h.dir, "home")
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + home, "XDG_RUNTIME_DIR=" + home}
	if h.place.ReadOnly { // its one volume
		cmd.Env = append(cmd.Env, barred.WritableEnv+"="+h.dir, "TMPDIR="+home)
	}
	return cmd
}

func (h everydayHost) try(t *testing.T, e everyday) {
	t.Helper()
	if out, err := h.command("sh", "-c", "rm -rf ws && cp -a repo ws").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := h.command(h.sandgate, "run", "--", "sh", "-c", e.script)
	cmd.Dir = filepath.Join(h.dir, "ws")
	out, err := cmd.CombinedOutput()
	if strings.Contains(e.script, " /tmp/") && unix.Access("/tmp", unix.W_OK) == unix.EROFS {
		// What is made in /tmp itself lies there, and a read-only image has no room for it.
		if err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("in a read-only /tmp: %v\n%s", err, out)
		}
		return
	}
	if err != nil || !regexp.MustCompile("(?m)"+e.want).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
