package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// outside is a directory that no sandbox shows and none has one of its own in place of.
func outside(t *testing.T) string {
	t.Helper()
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"/srv", cwd} {
		if sandboxprofile.Contains("/tmp", parent) || sandboxprofile.Contains("/var/tmp", parent) {
			continue
		}
		if dir, err := os.MkdirTemp(parent, "hints-test-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	t.Skip("there is no directory to write to that is not temporary")
	return ""
}

// TestHintsHelp follows the hints of `sandgate run`: with the flags that were named, the same
// command works. Where no flag would help, none is named.
func TestHintsHelp(t *testing.T) {
	if ok, err := scriptCondition("sandbox"); err != nil || !ok {
		if err != nil {
			t.Fatal(err)
		}
		t.Skip("this host cannot build a bubblewrap sandbox")
	}
	dir, ws := outside(t), t.TempDir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, text := range map[string]string{
		"data/x": "data\n", "with blank/x y": "data\n", "real/lib": "lib\n", "real/bin/tool": "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/../lib\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "data/x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "real/bin/tool"), filepath.Join(dir, "bin/tool")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HINTED_SETTING", "x")
	t.Setenv("HINTED_TOKEN", "token=ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	run := func(flags string, command string) (out string, status int) {
		t.Helper()
		cmd := exec.Command("sh", "-c", "exec sandgate run --no-detect "+flags+" -- bash -c \"$COMMAND\"")
		cmd.Dir, cmd.Env = ws, append(os.Environ(), "COMMAND=cd "+dir+"/.. 2>/dev/null; D="+dir+"; "+command)
		var all bytes.Buffer
		cmd.Stdout, cmd.Stderr = &all, &all
		_ = cmd.Run() // its status tells
		return all.String(), cmd.ProcessState.ExitCode()
	}
	flag := regexp.MustCompile(`--debug|--(?:ro|rw|network|env) (?:'[^']*'|\S+)`)
	for _, c := range []struct {
		name, command string
		hints         bool
	}{
		{"a file", `cat $D/data/x`, true},
		{"a name with a blank", `cat "$D/with blank/x y"`, true},
		{"a directory", `ls $D/data`, true},
		{"two files", `cat $D/data/x; cat $D/real/lib`, true},
		{"a program with what it needs", `$D/real/bin/tool`, true},
		{"a link to a program", `$D/bin/tool`, true},
		{"a link, started by Python", `python3 -c 'import subprocess, sys; subprocess.run([sys.argv[1]], check=True)' $D/bin/tool`, true},
		{"a new file", `touch $D/out/touched`, true},
		{"a new file of a shell", `echo x > $D/out/written`, true},
		{"a new file of Python", `python3 -c 'import sys; open(sys.argv[1], "w")' $D/out/python`, true},
		{"an archive", `tar cf $D/out/all.tar /etc/passwd 2>&1 | grep -v Removing >&2; test -f $D/out/all.tar`, true},
		{"a copy", `cp -r /etc/alternatives $D/out/copy 2>&1 | tail -1 >&2; test -d $D/out/copy`, true},
		{"cargo's words", `touch $D/out/fnv 2>/dev/null || { echo "failed to open: $D/out/fnv, error: Read-only file system" >&2; exit 1; }`, true},
		{"a tracer", `strace -o /dev/null true`, true},
		{"a debugger", `sleep 300 & gdb -nx -batch -p $! -ex detach 2>&1 | tee log >&2; kill %1; grep -q detached log`, true},
		{"a program that looks for leaks at its end", `T=$(mktemp -d); echo 'int main(void) { return 0; }' | gcc -fsanitize=address -x c -o $T/asan - && $T/asan`, true},
		{"a variable", `: "${HINTED_SETTING:?is not set}"`, true},
		{"a secret", `: "${HINTED_TOKEN:?is not set}"`, true},
		{"a variable that is not set", `: "${HINTED_NOWHERE:?is not set}"`, false},
		{"a variable of the sandbox's own", `echo HTTPS_PROXY >&2; exit 1`, false},
		{"a file that is nowhere", `cat /tmp/no-such-file /var/tmp/no-such-file ~/no-such-file`, false},
		{"the system's directories", `touch /usr/local/made`, false},
		{"the machine", `touch /made`, false},
		{"the machine's directories", `mkdir /srv/made`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, status := run("", c.command)
			if status == 0 {
				t.Fatalf("it works without a flag: %s", said)
			}
			flags := strings.Join(flag.FindAllString(said, -1), " ")
			if (flags != "") != c.hints {
				t.Fatalf("flags %q in %s", flags, said)
			}
			if flags == "" {
				return
			}
			if again, status := run(flags, c.command); status != 0 {
				t.Errorf("with %s: status %d\n%s", flags, status, again)
			}
		})
	}
	for _, c := range []struct{ name, low, names, high, command string }{
		{"time", "--timeout 1s", "--timeout of sandgate run", "--timeout 60s", "sleep 2"},
		{"processes", "--pids 20", "--pids of sandgate run", "--pids 300", "for i in $(seq 50); do sleep 1 & done; wait"},
		{"memory", "--memory 64MiB", "--memory of sandgate run", "--memory 1GiB", `python3 -c 'len(b"x" * (200 << 20))'`},
		{"size of a file", "--file-size 1MiB", "--file-size of sandgate run", "--file-size 4MiB", "exec head -c 2000000 /dev/zero > big"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said, status := run(c.low, c.command); status == 0 || !strings.Contains(said, c.names) {
				t.Fatalf("status %d, and no %q in %s", status, c.names, said)
			}
			if said, status := run(c.high, c.command); status != 0 {
				t.Errorf("with %s: status %d: %s", c.high, status, said)
			}
		})
	}
}
