package linux_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestReadsBesideHiddenNames: below a directory that programs only read, the kernel alone
// decides what they open, whatever a person makes there meanwhile. Nothing that is hidden
// is shown, and what else there is can be read and listed.
func TestReadsBesideHiddenNames(t *testing.T) {
	l, ws, p := brokered(t)
	home := confinetest.Workspace(t)
	p.Paths[home] = sandboxprofile.Read | sandboxprofile.Execute
	put(t, home+"/plain", "plain")
	put(t, home+"/.env", "TOPSECRET")
	mkdir(t, home+"/secrets")
	put(t, home+"/secrets/key", "TOPSECRET")
	mkdir(t, home+"/deep/down")
	put(t, home+"/deep/down/.env", "TOPSECRET")
	put(t, home+"/deep/down/plain", "deep")
	mkdir(t, home+"/free")
	k := converse(t, l, p, ws)
	k.gets("os.chdir("+`'`+home+`'`+")", "ok")
	k.gets("r = open('plain').read() + open('deep/down/plain').read()", "plaindeep")
	k.gets("r = ' '.join(sorted(os.listdir('.')))", ".env deep free plain secrets")
	k.gets("r = ' '.join(sorted(os.listdir('deep/down')))", ".env plain")
	k.gets("r = subprocess.run(['ls', '-a'], capture_output=True, text=True).stdout.count('secrets')", "1")
	for _, hidden := range []string{".env", "secrets/key", "deep/down/.env"} {
		k.gets("open('"+hidden+"')", "EACCES")
		k.gets("open('"+home+"/"+hidden+"')", "EACCES")
		k.gets("os.symlink('"+home+"/"+hidden+"', '"+ws+"/way'); open('"+ws+"/way')", "EACCES")
		k.gets("fd = os.open('"+hidden+"', os.O_PATH); open('/proc/self/fd/%d' % fd)", "EACCES")
	}
	k.gets("os.listdir('secrets')", "EACCES")
	k.gets("os.rename('plain', 'other')", "EACCES")

	// A person's, made while the sandbox stands.
	put(t, home+"/later", "later")
	put(t, home+"/secrets/later", "TOPSECRET")
	put(t, home+"/deep/.env", "TOPSECRET")
	put(t, home+"/free/later", "later")
	k.gets("open('secrets/later')", "EACCES")
	k.gets("open('deep/.env')", "EACCES")
	k.gets("open('later')", "EACCES") // shown from the next sandbox on
	k.gets("r = open('free/later').read()", "later")
	k.end()
	again := converse(t, l, p, home)
	again.gets("r = open('later').read()", "later")
	again.gets("open('deep/.env')", "EACCES")

	// In a directory that programs write, what they make is read through the broker.
	put(t, ws+"/.env", "TOPSECRET")
	written := converse(t, l, p, ws)
	written.gets("open('new', 'w').write('x'); r = open('new').read()", "x")
	written.gets("open('.env')", "EACCES")
	written.gets("r = subprocess.run(['cat', '/dev/stdin'], stdin=open('new'), capture_output=True, text=True).stdout", "x")
	written.gets("fd = os.open('new', os.O_PATH); r = open('/proc/self/fd/%d' % fd).read()", "x")
	written.gets("fd = os.open('.env', os.O_PATH); open('/proc/self/fd/%d' % fd)", "EACCES")
	written.gets("os.symlink('.env', 'way'); fd = os.open('way', os.O_PATH); open('/proc/self/fd/%d' % fd)", "EACCES")
	written.gets("r = open('"+home+"/deep/down/plain').read() + open('/usr/../"+strings.TrimPrefix(home, "/")+"/plain').read()", "deepplain")
	written.gets("open('/usr/../"+strings.TrimPrefix(ws, "/")+"/.env')", "EACCES")
	written.gets("r = open('/usr/../"+strings.TrimPrefix(ws, "/")+"/new').read()", "x")
}

// TestManyNamesBesideAHiddenOne: a tool that makes any number of names beside a hidden one
// bars no later call. They are read through the broker, what is hidden stays so, and what
// can be executed there still can.
func TestManyNamesBesideAHiddenOne(t *testing.T) {
	l, ws, p := brokered(t)
	put(t, ws+"/.env", "TOPSECRET")
	put(t, ws+"/run", "#!/bin/sh\necho ran\n")
	if err := os.Chmod(ws+"/run", 0o755); err != nil {
		t.Fatal(err)
	}
	mkdir(t, ws+"/sub")
	put(t, ws+"/sub/.env", "TOPSECRET")
	put(t, ws+"/sub/plain", "plain")
	for i := range 8200 {
		if err := unix.Mknod(fmt.Sprintf("%s/n%d", ws, i), unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	put(t, ws+"/n8000", "many")
	box, err := l.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if f := box.Enforced().Files; !strings.Contains(f, ws+" has too many names") {
		t.Errorf("told: %s", f)
	}
	o := confinetest.ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "cat n8000 sub/plain; ./run; rm n8000; echo new > n8000; ls | wc -l; cat .env; cat sub/.env")
	if o.Out != "manyplainran\n8202\n" || !strings.Contains(o.Err, "cat: .env: Permission denied") || !strings.Contains(o.Err, "cat: sub/.env: Permission denied") || strings.Contains(o.Out+o.Err, "TOPSECRET") {
		t.Errorf("%+v", o)
	}
}
