package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageADraftIsAskedAbout: on a terminal, whoever runs a command with --review is asked what becomes of its draft. Only an
// answer to the question that stands keeps or drops it: nothing that was typed while the command ran, that is pasted, or
// that is no answer. Then the draft stays, and it is said how to go on.
func TestPageADraftIsAskedAbout(t *testing.T) {
	d := newTerminalDay(t)
	stands := func(name, want string) {
		t.Helper()
		if b, _ := os.ReadFile(filepath.Join(d.dir, name)); string(b) != want {
			t.Errorf("%s: %q, want %q\n%s", name, b, want, d.text())
		}
	}
	run := func(script string) {
		t.Helper()
		d.fresh()
		d.types("sandgate run --review -- sh -c '" + script + "'")
	}
	draft := func(want string) {
		t.Helper()
		d.fresh()
		d.types("sandgate review --json | grep -c id")
		d.see(want + " outside$")
		d.fresh()
		d.types("sandgate review drop --yes; echo drop''ped")
		d.see("dropped")
	}

	run("echo one > a; exit 3")
	d.see("[k]eep it")
	stands("a", "")
	d.types("v")
	d.see("+one [k]eep it")
	d.types("k")
	d.see("kept 1 name")
	d.prompt()
	stands("a", "one\n")
	d.types("echo status $?")
	d.see("status 3")

	// What the program has drawn stands neither beside our words nor below them, and above them with a line between.
	run("printf \"\\033[2J\\033[7;1Hfor''ged\\033[1;1Hleft\"; echo two > a")
	d.see("left sandgate: the command has ended")
	d.see("[k]eep it")
	if strings.Contains(d.text(), "forged") {
		t.Error(d.text())
	}
	d.types("d")
	d.see("dropped; the workspace is unchanged")
	draft("0")
	stands("a", "one\n")

	run("echo three > a; echo go''ing; sleep 2; exit 0")
	d.see("going")
	d.types("k") // ahead of the question
	d.see("[k]eep it")
	stands("a", "one\n")
	d.tmux("set-buffer", "k\nk\nk\n")
	d.tmux("paste-buffer")
	d.see("answer with a single line [k]eep it")
	stands("a", "one\n")
	d.types("keep all")
	d.see("stays; the workspace has not changed")
	draft("1")
	stands("a", "one\n")

	run("echo four > a")
	d.see("[k]eep it")
	d.keys("C-c")
	d.see("stays; the workspace has not changed")
	d.prompt()
	d.types("echo status $?")
	d.see("status 130")
	draft("1")
	stands("a", "one\n")

	run("for i in `seq 60`; do echo x > many$i; done")
	d.see("[k]eep it")
	d.types("k")
	d.see("to keep everything [k]eep it")
	stands("many1", "")
	d.types("k")
	d.see("kept 60 names")
	stands("many60", "x\n")

	run("head -c 3000 /dev/urandom > binary")
	d.see("[k]eep it")
	d.types("k")
	d.see("to keep it unread [k]eep it")
	stands("binary", "")
	d.types("d")
	d.see("dropped; the workspace is unchanged")

	run("seq 3000 > long")
	d.see("[k]eep it")
	d.types("v")
	d.see("+3000 [k]eep it")
	d.types("k")
	d.see("to keep everything [k]eep it")
	stands("long", "")
	d.types("d")
	d.see("dropped; the workspace is unchanged")

	run("echo five > a")
	d.see("[k]eep it")
	if err := os.WriteFile(filepath.Join(d.dir, "a"), []byte("person\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.types("k")
	d.see("changed after the question")
	draft("1")
	stands("a", "person\n")
}
