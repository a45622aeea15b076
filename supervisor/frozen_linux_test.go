package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools/shell"
	"github.com/sandgate/sandgate/tools/tasks"
)

// A form is one way to start the files of a workspace.
type form struct{ tool, args string }

func line(command string) form { return form{"shell", mustText(map[string]any{"command": command})} }

func argv(words ...string) form { return form{"run", mustText(map[string]any{"argv": words})} }

func mustText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// starting are forms that run build.sh, x.py or what stands in a file that a program
// carries out. Each prints "approved".
func starting(ws string) []form {
	return []form{
		line("./build.sh"), line("./x.py"), line(ws + "/build.sh"), line("env ./build.sh"), line("timeout 50 ./build.sh"),
		line("./build.sh && true"), line(". ./build.sh"), line("sh -c ./build.sh"), line("cat x.py | python3"), line("cat x.py | sh build.sh"),
		line("cd . && ./build.sh"), line("sh build.sh"), line("bash ./build.sh"), line("python3 x.py"), line("python3 ./x.py"),
		line("sh < build.sh"), line("bash -eu build.sh"), line("sub/../build.sh"), line("cd sub; ../build.sh"), line("(./build.sh)"),
		line("f=./build.sh; $f"), line("for i in 1; do ./build.sh; done"), line("if ./build.sh; then :; fi"), line("echo $(./build.sh)"),
		line("eval ./build.sh"), line("nice env A=b ./build.sh"), line("python3 -u x.py"), line("python3 -W ignore x.py"), line("python3 -m x"),
		line("source build.sh"), line("exec ./build.sh"), line("xargs ./build.sh < /dev/null"), line("./linked.sh"), line("make -s"), line("make -s -f Makefile all"),
		line("make -C . -s"), line("sed -n -f p.sed x.py"), line("awk -f p.awk x.py"), line("PATH=.:$PATH build.sh"), line("bash --rcfile /dev/null -c ./build.sh"),
		argv("./build.sh"), argv("./x.py"), argv("sh", "build.sh"), argv("python3", "x.py"), argv("env", "./build.sh"), argv("make", "-s"),
		{tasks.Start, mustText(map[string]any{"command": "./build.sh"})},
	}
}

// scripts fills a workspace with files that print word.
func scripts(t *testing.T, ws, word string) {
	t.Helper()
	for name, content := range map[string]string{
		"build.sh": "#!/bin/sh\necho " + word + "\n", "x.py": "#!/usr/bin/env python3\nprint('" + word + "')\n", "Makefile": "all:\n\t@echo " + word + "\n",
		"p.sed": "1s/.*/" + word + "/p\n", "p.awk": "END {print \"" + word + "\"}\n", "sub/x": "",
	} {
		replaceFile(t, filepath.Join(ws, name), content)
	}
	if err := os.Symlink("build.sh", ws+"/linked.sh"); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// replaceFile puts another file behind a name, as an editor does that saves by renaming.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// outputOf makes a call, and gives what its program printed, also in the background.
func (f *fixture) outputOf(t *testing.T, x form) (string, *protocol.Error) {
	t.Helper()
	r, e := f.call(context.Background(), x.tool, x.args)
	if e != nil || x.tool != tasks.Start {
		return textOf(r), e
	}
	text, _ := f.read(t, decodeAs[protocol.TaskInfo](t, r).TaskID, "")
	return text, nil
}

// TestWhatWasApprovedIsWhatRuns: a file that a call starts, in whatever form, and that is
// another one when the call is to begin, does not run. Its twin, unchanged, does.
func TestWhatWasApprovedIsWhatRuns(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	change := false
	f.answer(t, func(p approval.Pending) {
		if p.ToolName != tasks.Output {
			s, err := f.approvals.Show(context.Background(), p.ID)
			if err != nil || s.Presentation == nil || !strings.Contains(s.Presentation.Content, "approved") {
				t.Errorf("%s %v: the text of what it starts is not shown: %v, %+v", p.ToolName, p.Payload, err, s.Presentation)
			}
		}
		if change {
			scripts(t, f.ws, "evil")
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for _, x := range starting(f.ws) {
		change = false
		scripts(t, f.ws, "approved")
		if out, e := f.outputOf(t, x); e != nil || !strings.HasPrefix(out, "approved") {
			t.Errorf("%v, unchanged: %q, %v", x, out, e)
		}
		change = true
		out, e := f.outputOf(t, x)
		if e == nil || e.Code != protocol.CodeDenied || !strings.Contains(e.Message, "changed between approval and start") || strings.Contains(out, "evil") {
			t.Errorf("%v, changed after it was approved: %q, %v", x, out, e)
		}
	}
}

// TestWhatRunsIsAmongWhatIsShown: however a line comes to a file in another directory, or
// to a script that no list of forms has, that file is shown and held; and an answer that is
// remembered is for its content.
func TestWhatRunsIsAmongWhatIsShown(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	fill := func(what string) {
		for _, name := range []string{"d/build.sh", "d/__main__.py", "d/index.js", "ci.sh", "plain.sh"} {
			text := "#!/bin/sh\necho " + what + "\n"
			switch {
			case strings.HasSuffix(name, ".py"):
				text = "print('" + what + "')\n"
			case strings.HasSuffix(name, ".js"):
				text = "console.log('" + what + "')\n"
			}
			replaceFile(t, f.ws+"/"+name, text)
			if err := os.Chmod(f.ws+"/"+name, map[bool]os.FileMode{true: 0o644, false: 0o755}[name == "plain.sh"]); err != nil {
				t.Fatal(err)
			}
		}
		replaceFile(t, f.ws+"/build.sh", "#!/bin/sh\necho decoy\n")
		if err := os.Chmod(f.ws+"/build.sh", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	change, asked := false, 0
	f.answer(t, func(p approval.Pending) {
		asked++
		s, err := f.approvals.Show(context.Background(), p.ID)
		if err != nil || s.Presentation == nil || !strings.Contains(s.Presentation.Content, "approved") && !strings.Contains(s.Presentation.Content, "later") {
			t.Errorf("%v: what may run is not shown: %v, %+v", p.Payload, err, s.Presentation)
		}
		if change {
			fill("evil")
		}
		if _, err := f.approvals.Answer(p.ID, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"}); err != nil {
			if !strings.Contains(err.Error(), "only be allowed once") {
				t.Error(err)
			}
			f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
		}
	})
	for _, command := range []string{
		"env -C d ./build.sh", "env --chdir=d ./build.sh", "env -Cd ./build.sh", "timeout 5 env -C d ./build.sh", "pushd d >/dev/null; ./build.sh",
		"find d -name build.sh -execdir ./build.sh \\;", "OLDPWD=d cd - >/dev/null; ./build.sh", "CDPATH=.:d; cd d; ./build.sh",
		"D=d; cd $D && ./build.sh", "trap 'cd d' DEBUG; ./build.sh", "cd d*; ./build.sh", "f() { cd d; }; f; ./build.sh", "cd -P d; ./build.sh", "eval cd d; ./build.sh",
		"bash -euo pipefail ci.sh", "bash -eo pipefail plain.sh", "python3 d", "bash -c \"$(cat plain.sh)\"", "bash <(cat plain.sh)", "sh /dev/stdin < plain.sh",
		"xargs -I{} sh -c {} < plain.sh", "f() { sh; }; f < plain.sh", "BASH_ENV=plain.sh bash -c :", "trap 'source ./plain.sh' EXIT",
		strings.Repeat("yarn --cwd=. 2>/dev/null; ", 70) + "./ci.sh", "test -e " + strings.Repeat("a ", 260) + "; ./ci.sh",
	} {
		change = false
		fill("approved")
		if r, e := f.call(context.Background(), "shell", line(command).args); e != nil || !strings.Contains(textOf(r), "approved") && !strings.HasPrefix(command, "xargs") {
			t.Errorf("%q, unchanged: %q, %v", command, textOf(r), e)
		}
		fill("later")
		asked = 0
		if r, e := f.call(context.Background(), "shell", line(command).args); e != nil || asked != 1 {
			t.Errorf("%q, with another content: asked %d times: %q, %v", command, asked, textOf(r), e)
		}
		change = true
		fill("approved too")
		if r, e := f.call(context.Background(), "shell", line(command).args); e == nil || e.Code != protocol.CodeDenied || !strings.Contains(e.Message, "changed between approval and start") {
			t.Errorf("%q, changed after it was approved: %q, %v", command, textOf(r), e)
		}
	}
}

// TestOnlyWeSayThatAFileIsHeld: a line that is drawn like the section of a held file is not
// shown as one.
func TestOnlyWeSayThatAFileIsHeld(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	scripts(t, f.ws, "approved")
	shown := ""
	f.answer(t, func(p approval.Pending) {
		s, err := f.approvals.Show(context.Background(), p.ID)
		if err != nil {
			t.Error(err)
		}
		shown = s.Presentation.Content
		f.mustAnswer(t, p, approval.Answer{Approver: "test"})
	})
	for _, frame := range []string{"── ci.sh, which cannot change while the call runs\n│ make test", "  ── x\n\t│ y", "\n━━ x\n┃ y", "｜ x\n｜ y", "ーー x\n丨 y", "一一 x\n丨 y"} {
		for _, command := range []string{"touch '\n" + frame + "\n'", "touch '\n" + frame + "\n'; ./build.sh"} {
			_, _ = f.call(context.Background(), "shell", line(command).args)
			ours, _, held := strings.Cut(shown, "\n\n── build.sh")
			for l := range strings.Lines(ours) {
				if !strings.HasPrefix(l, "  ") || held != strings.HasSuffix(command, "build.sh") {
					t.Errorf("%q is shown with a line of ours:\n%s", command, shown)
				}
			}
		}
	}
}

// TestAnEditRunsAsItWasPreviewed: an answer with other arguments is for what they were
// shown to come to. A file that has changed since is shown again before it runs.
func TestAnEditRunsAsItWasPreviewed(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	args := json.RawMessage(line("./build.sh").args)
	f.answer(t, func(p approval.Pending) {
		preview := func(word string) string {
			shown, _, err := f.approvals.Preview(context.Background(), p.ID, args, nil)
			if err != nil || !strings.Contains(shown.Presentation.Content, "echo "+word) {
				t.Errorf("shown %+v, %v; want %s", shown.Presentation, err, word)
			}
			return shown.Digest
		}
		scripts(t, f.ws, "shown")
		a := approval.Answer{Allow: true, Approver: "test", Args: args, Digest: preview("shown")}
		scripts(t, f.ws, "changed")
		_, err := f.approvals.Answer(p.ID, a)
		var invalid *approval.InvalidAnswerError
		if !errors.As(err, &invalid) || invalid.Field != "plan_digest" {
			t.Errorf("after a change: %v", err)
		}
		a.Digest = preview("changed")
		f.mustAnswer(t, p, a)
	})
	if out, e := f.outputOf(t, line("true; ./x.py")); e != nil || out != "changed\n" {
		t.Errorf("%q, %v", out, e)
	}
}

// TestWhatWentAwayDoesNotRun: a file that was approved, and is gone or cannot be read when
// the call is to begin, is a denial that names it and says what to do.
func TestWhatWentAwayDoesNotRun(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	var spoil func(path string) error
	f.answer(t, func(p approval.Pending) {
		if spoil != nil {
			if err := spoil(f.ws + "/build.sh"); err != nil {
				t.Error(err)
			}
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for name, x := range map[string]func(path string) error{
		"unchanged":         nil,
		"gone":              os.Remove,
		"unreadable":        func(path string) error { return os.Chmod(path, 0) },
		"a directory":       func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"a link to nothing": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("nothing", path)) },
		"a pipe":            func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o755)) },
	} {
		for _, l := range []string{"sub/../build.sh", "sh sub/../build.sh"} {
			if err := os.RemoveAll(f.ws + "/build.sh"); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(f.ws + "/moved"); err != nil {
				t.Fatal(err)
			}
			scripts(t, f.ws, "approved")
			spoil = x
			r, e := f.call(context.Background(), "shell", line(l).args)
			switch {
			case x == nil:
				if e != nil || textOf(r) != "approved\n" {
					t.Errorf("%s: %q: %v, %q", name, l, e, textOf(r))
				}
			case e == nil || e.Code != protocol.CodeDenied || !strings.Contains(e.Message, "changed between approval and start") ||
				!strings.Contains(e.Message, "/build.sh") || !strings.Contains(e.HintText, "repeat the call"):
				t.Errorf("%s: %q: %+v, %q", name, l, e, textOf(r))
			}
		}
	}
}

// TestWhatDidNotExistIsNotSlippedIn: a script that was not there when the call was
// approved is not one that somebody has made since.
func TestWhatDidNotExistIsNotSlippedIn(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	make := ""
	f.answer(t, func(p approval.Pending) {
		if make != "" {
			replaceFile(t, make, "#!/bin/sh\necho evil\n")
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	made := line("printf '#!/bin/sh\\necho approved' > later.sh; chmod +x later.sh; ./later.sh")
	if out, e := f.outputOf(t, made); e != nil || !strings.HasPrefix(out, "approved") {
		t.Errorf("one that the line makes itself: %q, %v", out, e)
	}
	os.Remove(f.ws + "/later.sh")
	make = f.ws + "/later.sh"
	if out, e := f.outputOf(t, line("true && ./later.sh")); e == nil || e.Code != protocol.CodeDenied {
		t.Errorf("one that another made: %q, %v", out, e)
	}
	make = f.ws + "/linked.sh"
	scripts(t, f.ws, "approved")
	if out, e := f.outputOf(t, line("./linked.sh")); e == nil || e.Code != protocol.CodeDenied {
		t.Errorf("a link that leads elsewhere: %q, %v", out, e)
	}
}

// TestWhatWasNoProgramIsNotSlippedIn: a word that named nothing that a program could be when a person was asked
// names none when the call starts. Its twin, for which nothing was made meanwhile, runs.
func TestWhatWasNoProgramIsNotSlippedIn(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	replaceFile(t, f.ws+"/Makefile", "all:\n\t@$(CC) 2>/dev/null || echo approved\n")
	made, mode := "", os.FileMode(0)
	f.answer(t, func(p approval.Pending) {
		if made != "" {
			replaceFile(t, f.ws+"/"+made, "#!/bin/sh\necho evil\n")
			if err := os.Chmod(f.ws+"/"+made, mode); err != nil {
				t.Error(err)
			}
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for _, c := range []struct {
		command, made string
		mode          os.FileMode
	}{
		{"make -s CC=./cc", "cc", 0o755},
		{"make -s CC='sh ./cc'", "cc", 0o644},
		{"BASH_ENV=env bash -c 'echo approved'", "env", 0o644},
		{"PATH=bin:$PATH true; echo approved", "bin/true", 0o755},
	} {
		made = ""
		os.RemoveAll(f.ws + "/" + c.made)
		if r, e := f.call(context.Background(), "shell", line(c.command).args); e != nil || textOf(r) != "approved\n" {
			t.Errorf("%q: %v, %q", c.command, e, textOf(r))
		}
		made, mode = c.made, c.mode
		r, e := f.call(context.Background(), "shell", line(c.command).args)
		if e == nil || e.Code != protocol.CodeDenied || !strings.Contains(e.Message, "changed between approval and start") {
			t.Errorf("%q, with %s since: %v, %q", c.command, made, e, textOf(r))
		}
	}
}

// TestAVariableNamesNoUnseenFile: where a variable says where a program finds what it loads, and which files that are
// is not known, an answer holds for one call. One that was given before there was such a directory holds no longer.
func TestAVariableNamesNoUnseenFile(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	replaceFile(t, f.ws+"/lib/there.py", "")
	asked, once := 0, false
	f.answer(t, func(p approval.Pending) {
		asked++
		_, err := f.approvals.Answer(p.ID, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
		if once = err != nil; once {
			f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
		}
	})
	call := func(command string) {
		if r, e := f.call(context.Background(), "shell", line(command).args); e != nil || textOf(r) != "ran\n" {
			t.Errorf("%q: %v, %q", command, e, textOf(r))
		}
	}
	for command, want := range map[string]bool{
		"PYTHONPATH=lib python3 -c 'print(\"ran\")'": true, "env PYTHONPATH=/usr:lib python3 -c 'print(\"ran\")'": true, "PYTHONPATH=. python3 -c 'print(\"ran\")'": true,
		"BASH_ENV=$PWD/lib/x bash -c 'echo ran'": true, "export PATH=lib:$PATH; echo ran": true, "HOME=/tmp/x bash -c 'echo ran'": true,
		"CFLAGS=-O2 bash -c 'echo ran'": false, "PYTHONPATH=/usr/lib python3 -c 'print(\"ran\")'": false, "XLIB=later bash -c 'echo ran'": false,
	} {
		if call(command); once != want {
			t.Errorf("%q can be allowed once only: %v", command, once)
		}
	}
	asked = 0
	if call("XLIB=later bash -c 'echo ran'"); asked != 0 {
		t.Error("an answer is not remembered")
	}
	replaceFile(t, f.ws+"/later/x", "")
	if call("XLIB=later bash -c 'echo ran'"); asked != 1 || !once {
		t.Error("an answer from before the directory was there holds still")
	}
}

// TestALinkIsNotTurned: a name that a call can turn is held with its links, and with what is
// there in place of a file, whatever it leads to when the question is asked. What a name means
// to another process is never shown as what the call starts.
func TestALinkIsNotTurned(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{fallback: careful, writes: true})
	scripts(t, f.ws, "benign")
	turn := func() {}
	var shown approval.Pending
	f.answer(t, func(p approval.Pending) {
		var err error
		if shown, err = f.approvals.Show(context.Background(), p.ID); err != nil {
			t.Error(err)
		}
		turn()
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	gen := f.ws + "/gen.sh"
	evil := func() {
		do(os.RemoveAll(gen), os.WriteFile(gen, []byte("echo EVIL\n"), 0o755))
	}
	evilBelow := func() {
		do(os.RemoveAll(gen), os.Mkdir(gen, 0o755), os.WriteFile(gen+"/ldd", []byte("echo EVIL\n"), 0o755))
	}
	for _, x := range []struct {
		name, command string
		make          func()
		swap          func()
		runs          bool // as it is, without a swap
	}{
		{"a link to a program", "bash gen.sh --version", func() { do(os.Symlink("/usr/bin/ldd", gen)) }, evil, true},
		{"a link and the file beside it", "bash build.sh; bash gen.sh", func() { do(os.Symlink("build.sh", gen)) }, evil, true},
		{"a directory that is a link", "bash gen.sh/ldd --version", func() { do(os.Symlink("/usr/bin", gen)) }, evilBelow, true},
		{"a pipe", "bash gen.sh", func() { do(unix.Mkfifo(gen, 0o755)) }, evil, false},
		{"a loop", "bash gen.sh", func() { do(os.Symlink("gen.sh", gen)) }, evil, false},
		{"a directory", "bash gen.sh", func() { do(os.Mkdir(gen, 0o755)) }, evil, false},
	} {
		do(os.RemoveAll(gen))
		x.make()
		if turn = func() {}; x.runs {
			if out, e := f.outputOf(t, line(x.command)); e != nil || out == "" || strings.Contains(out, "EVIL") {
				t.Errorf("%s: as it is: %v, %q", x.name, e, out)
			}
		}
		turn = x.swap
		if out, e := f.outputOf(t, line(x.command)); e == nil || e.Code != protocol.CodeDenied || !strings.Contains(e.Message, "changed between approval and start") {
			t.Errorf("%s: %v, %q", x.name, e, out)
		}
		if !x.runs && !strings.Contains(mustText(shown.Details), "not all files") {
			t.Errorf("%s: nothing says what is not held: %v", x.name, shown.Details)
		}
	}
	turn = func() {}
	do(os.MkdirAll(f.ws+"/sub", 0o755), os.WriteFile(f.ws+"/sub/x.sh", []byte("echo sub\n"), 0o644), os.WriteFile(f.ws+"/x.sh", []byte("echo start\n"), 0o644))
	for _, command := range []string{"bash /proc/self/cwd/x.sh", "bash /proc/thread-self/cwd/x.sh", "cd sub && bash /dev/fd/../cwd/x.sh", "mytool /proc/self/cwd/x.sh"} {
		shown = approval.Pending{}
		_, _ = f.call(context.Background(), "shell", `{"command": `+strconv.Quote(command)+`, "dir": "sub"}`)
		if !strings.Contains(mustText(shown.Details), "means a different file in each process") || strings.Contains(shown.Presentation.Content, "echo ") {
			t.Errorf("%q: %v, shown %q", command, shown.Details, shown.Presentation.Content)
		}
	}
}

// TestWhatComesFirstIsNotSlippedIn: that a file is not there which a program looks for
// before the one that was shown is part of what was approved.
func TestWhatComesFirstIsNotSlippedIn(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	replaceFile(t, f.ws+"/Makefile", "all:\n\t@echo approved\n")
	replaceFile(t, f.ws+"/m.py", "print('approved')\n")
	made := ""
	f.answer(t, func(p approval.Pending) {
		if s, err := f.approvals.Show(context.Background(), p.ID); err != nil || strings.Contains(s.Presentation.Content, "not there") {
			t.Errorf("what is not there is told of: %v, %+v", err, s.Presentation)
		}
		if made != "" {
			replaceFile(t, f.ws+"/"+made, "all:\n\t@echo evil\n")
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for command, first := range map[string]string{"make": "GNUmakefile", "python3 -m m": "m/__init__.py"} {
		made = ""
		if r, e := f.call(context.Background(), "shell", line(command).args); e != nil || textOf(r) != "approved\n" {
			t.Errorf("%q: %v, %q", command, e, textOf(r))
		}
		made = first
		if r, e := f.call(context.Background(), "shell", line(command).args); e == nil || e.Code != protocol.CodeDenied {
			t.Errorf("%q, with %s since: %v, %q", command, first, e, textOf(r))
		}
	}
}

// TestNothingIsFrozenElsewhere: of a call that the agent carries out itself nothing says
// that its files stay as they are.
func TestNothingIsFrozenElsewhere(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	scripts(t, f.ws, "approved")
	asked := 0
	f.answer(t, func(p approval.Pending) {
		asked++
		if s, err := f.approvals.Show(context.Background(), p.ID); err != nil || strings.Contains(s.Presentation.Content, "stays as it is") || !strings.Contains(s.Presentation.Content, "echo approved") {
			t.Errorf("%v: %+v", err, s.Presentation)
		}
		f.mustAnswer(t, p, approval.Answer{Approver: "test"})
	})
	if _, e := f.decideOn("shell", line("./build.sh").args, protocol.ApproversAsk); e == nil || e.Code != protocol.CodeDenied || asked != 1 {
		t.Errorf("%v; asked %d times", e, asked)
	}
}

// TestRulesHoldForTheToolRun: what a rule denies is denied under the other door, too, in
// every mode.
func TestRulesHoldForTheToolRun(t *testing.T) {
	for _, mode := range []approval.Mode{approval.ApproveAll, approval.Interactive} {
		f := newFixture(t, setup{mode: mode, denied: "touch"})
		for argv, denied := range map[string]bool{`["touch", "x"]`: true, `["env", "touch", "x"]`: true, `["sh", "-c", "touch x"]`: true} {
			if r, e := f.call(context.Background(), "run", `{"argv": `+argv+`}`); (e != nil && e.Code == protocol.CodeBlocked) != denied {
				t.Errorf("%s: %s: %v, %+v", mode, argv, e, r)
			}
		}
	}
	for _, o := range []setup{{denied: "touch"}, {fallback: &shell.Default{}, unasked: "echo"}} { // what no rule allows is denied too, if the default says so
		o.mode = approval.ApproveAll
		f := newFixture(t, o)
		if r, e := f.call(context.Background(), "run", `{"argv": ["echo", "x"]}`); e != nil || textOf(r) != "x\n" {
			t.Errorf("%v, %q", e, textOf(r))
		}
		for _, tool := range []string{"run", "shell"} {
			args := map[string]string{"run": `{"argv": ["touch", "x"]}`, "shell": `{"command": "touch x"}`}
			if _, e := f.call(context.Background(), tool, args[tool]); e == nil || e.Code != protocol.CodeBlocked {
				t.Errorf("%s: %v", tool, e)
			}
		}
	}
}

// TestDenialsHoldForEveryToolThatRunsCommands: a command or a pattern that was denied of one
// of them is denied of the others, whoever carries the call out. An allow is for the one tool.
func TestDenialsHoldForEveryToolThatRunsCommands(t *testing.T) {
	calls := map[string]string{"shell": `{"command": "touch x"}`, "run": `{"argv": ["touch", "x"]}`, "run_background": `{"command": "touch x"}`}
	for from, first := range calls {
		for _, x := range []struct {
			allow bool
			of    *approval.Pattern
		}{{false, &approval.Pattern{Kind: approval.ArgvPrefix, Value: "touch x"}}, {true, &approval.Pattern{Kind: approval.ArgvPrefix, Value: "touch x"}}, {false, nil}, {true, nil}} {
			allow := x.allow
			f := newFixture(t, setup{fallback: careful})
			stop := f.approvals.Subscribe(func(e approval.Event) {
				if e.Kind == approval.Requested {
					f.mustAnswer(t, e.Pending, approval.Answer{Allow: allow, Scope: approval.Session, Pattern: x.of, Approver: "test"})
				}
			})
			if _, e := f.call(context.Background(), from, first); (e == nil) != allow {
				t.Fatalf("%s: %v", from, e)
			}
			stop()
			for to, args := range calls {
				want := protocol.CheckDeny
				switch {
				case allow && (to == from || x.of != nil && (to == "run") == (from == "run")): // a pattern for the shell is for the shell in the background
					want = protocol.CheckAllow
				case allow:
					want = protocol.CheckAsk
				}
				r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: protocol.ToolName(to), Args: json.RawMessage(args)})
				if err != nil || r.Decision != want {
					t.Errorf("allow %v of %s: %s %s: %v, %s (%s), want %s", allow, from, to, args, err, r.Decision, r.Reason, want)
				}
				if _, e := f.decideOn(to, args, protocol.AgentAsks); !allow && to != "run_background" && (e == nil || e.Code != protocol.CodeDenied) {
					t.Errorf("denied of %s: %s elsewhere: %v", from, to, e)
				}
			}
			if r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: "run", Args: json.RawMessage(`{"argv": ["mkdir", "x"]}`)}); err != nil || r.Decision != protocol.CheckAsk {
				t.Errorf("another program: %v, %s", err, r.Decision)
			}
			if allow {
				continue
			}
			for _, same := range []string{`{"command": "touch x", "timeout_ms": 1000}`, `{"command": "touch  'x'"}`, `{"command": "true; touch x </dev/null"}`, `{"command": "ls | touch x"}`} {
				if r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: "shell", Args: json.RawMessage(same)}); err != nil || r.Decision != protocol.CheckDeny {
					t.Errorf("denied of %s: %s: %v, %s", from, same, err, r.Decision)
				}
			}
		}
	}
}

// TestAChangeIsBoundToWhatItReplaces: a write or an edit makes the difference that was
// shown, or none.
func TestAChangeIsBoundToWhatItReplaces(t *testing.T) {
	f := newFixture(t, setup{})
	path, meanwhile := f.ws+"/notes", ""
	f.answer(t, func(p approval.Pending) {
		if meanwhile != "" {
			replaceFile(t, path, meanwhile)
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for _, c := range []struct {
		name, before, tool string
		args               map[string]any
	}{
		{"a write over a file", "one\n", "write_file", map[string]any{"path": "notes", "content": "new\n"}},
		{"a write of a new file", "", "write_file", map[string]any{"path": "notes", "content": "new\n"}},
		{"an edit", "one\n", "edit_file", map[string]any{"path": "notes", "old_string": "one", "new_string": "new"}},
		{"edits", "one\n", "multi_edit", map[string]any{"path": "notes", "edits": []any{map[string]any{"old_string": "one", "new_string": "new"}}}},
	} {
		for _, meanwhile = range []string{"", "one\nand more\n"} {
			os.Remove(path)
			if c.before != "" {
				replaceFile(t, path, c.before)
			}
			want := "new\n"
			if meanwhile != "" {
				want = meanwhile
			}
			_, e := f.call(context.Background(), c.tool, mustText(c.args))
			b, err := os.ReadFile(path)
			if err != nil || string(b) != want || (e == nil) != (meanwhile == "") {
				t.Errorf("%s, the file changed meanwhile to %q: %v; it holds %q", c.name, meanwhile, e, b)
			}
		}
	}
}

// TestARememberedAnswerCoversTheContent: what was allowed for the session is that
// script, with that text.
func TestARememberedAnswerCoversTheContent(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	asked := 0
	f.answer(t, func(p approval.Pending) {
		asked++
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	for i, x := range starting(f.ws) {
		if i%9 != 0 { // the payload is the same for all
			continue
		}
		scripts(t, f.ws, "approved")
		asked = 0
		for range 2 {
			if _, e := f.outputOf(t, x); e != nil {
				t.Errorf("%v: %v", x, e)
			}
		}
		scripts(t, f.ws, "changed")
		if _, e := f.outputOf(t, x); e != nil || asked != 2 {
			t.Errorf("%v: asked %d times, want once for each content; %v", x, asked, e)
		}
	}
}

// onEachBackend runs a test under both backends of this system.
func onEachBackend(t *testing.T, test func(t *testing.T, wrap func(confine.Confiner) confine.Confiner)) {
	t.Run("bwrap", func(t *testing.T) { test(t, nil) })
	t.Run("landlock", func(t *testing.T) {
		l, err := linux.NewLandlock(linux.LandlockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		test(t, func(confine.Confiner) confine.Confiner { return l })
	})
}

// TestNobodyChangesWhatRuns: while an approved call runs, no other call changes the files
// that it starts, takes their names, or moves the directories above them; and the call's
// own program does not either. What it starts later is what was approved.
func TestNobodyChangesWhatRuns(t *testing.T) {
	onEachBackend(t, func(t *testing.T, wrap func(confine.Confiner) confine.Confiner) {
		f := newFixture(t, setup{fallback: careful, confiner: wrap})
		replaceFile(t, f.ws+"/deep/sub/part.sh", "echo approved\n")
		replaceFile(t, f.ws+"/deep/beside", "free\n")
		replaceFile(t, f.ws+"/evil.sh", "echo evil\n")
		f.answer(t, func(p approval.Pending) { f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"}) })
		second, err := f.OpenSession(self, protocol.SessionOpen{Agent: "other"})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		go func() {
			r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "slow", Tool: "shell", Args: json.RawMessage(
				line("touch started; mv evil.sh deep/sub/part.sh; until [ -e go ]; do sleep 0.05; done; . deep/sub/part.sh").args)}, nil)
			done <- fmt.Sprint(textOf(r), err)
		}()
		for _, err := os.Stat(f.ws + "/started"); err != nil; _, err = os.Stat(f.ws + "/started") {
			select {
			case out := <-done:
				t.Fatalf("it ended before it was told to: %s", out)
			default:
			}
		}
		other := func(x form) (string, error) {
			r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: second.SessionID, CallID: "other", Tool: protocol.ToolName(x.tool), Args: json.RawMessage(x.args)}, nil)
			if err == nil && r.ExitCode != 0 {
				err = fmt.Errorf("status %d: %s", r.ExitCode, textOf(r))
			}
			return textOf(r), err
		}
		for _, attack := range []form{
			line("echo echo evil > deep/sub/part.sh"), line("mv evil.sh deep/sub/part.sh"), line("rm -f deep/sub/part.sh"), line("mv deep/sub/part.sh deep/away"),
			line("mv deep elsewhere && mkdir -p deep/sub && cp evil.sh deep/sub/part.sh"), line("mv deep/sub deep/other && mkdir deep/sub && cp evil.sh deep/sub/part.sh"),
			line("ln deep/sub/part.sh hard && echo echo evil > hard"), line("truncate -s 0 deep/sub/part.sh"), line("sed -i s/approved/evil/ deep/sub/part.sh"),
			{"write_file", mustText(map[string]any{"path": "deep/sub/part.sh", "content": "echo evil\n"})},
			{"edit_file", mustText(map[string]any{"path": "deep/sub/part.sh", "old_string": "approved", "new_string": "evil"})},
		} {
			if out, err := other(attack); err == nil {
				b, _ := os.ReadFile(f.ws + "/deep/sub/part.sh")
				if string(b) != "echo approved\n" {
					t.Errorf("%v succeeded while the call ran: %q; the file holds %q", attack, out, b)
				}
			}
		}
		if _, err := other(line("echo more > deep/beside && touch deep/sub/new")); err != nil {
			t.Errorf("what stands beside it cannot be changed: %v", err)
		}
		r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: second.SessionID, CallID: "told", Tool: "shell", Args: json.RawMessage(line("echo x > deep/sub/part.sh").args)}, nil)
		if err != nil || r.ExitCode == 0 || !strings.Contains(strings.Join(r.Warnings, "\n"), "deep/sub/part.sh cannot be changed until another call has ended") {
			t.Errorf("nothing says why the file cannot be changed: %v, %+v", err, r)
		}
		if _, err := other(line("touch go")); err != nil {
			t.Fatal(err)
		}
		if out := <-done; !strings.Contains(out, "approved") || strings.Contains(out, "evil\n") {
			t.Errorf("the call ended with %q", out)
		}
		if out, err := other(line("echo echo later > deep/sub/part.sh && cat deep/sub/part.sh")); err != nil || !strings.Contains(out, "later") {
			t.Errorf("after the call the file is not free: %q, %v", out, err)
		}
	})
}

// TestWhatRunsAlreadyDoesNotTakeANameEither: a background task from before the call keeps
// its hands off the files that the call starts, whatever it tries while the call runs, and
// is free again afterwards.
func TestWhatRunsAlreadyDoesNotTakeANameEither(t *testing.T) {
	onEachBackend(t, func(t *testing.T, wrap func(confine.Confiner) confine.Confiner) {
		for _, attack := range []string{
			"mv evil.sh deep/sub/part.sh", "rm -f deep/sub/part.sh; cp evil.sh deep/sub/part.sh", "ln -f evil.sh deep/sub/part.sh",
			"mv deep away; mkdir -p deep/sub; cp evil.sh deep/sub/part.sh", "(cd deep/sub; mv ../../evil.sh part.sh)",
			"mv deep/sub deep/away; mkdir -p deep/sub; cp evil.sh deep/sub/part.sh",
			"ln deep/sub/part.sh one; mv deep/sub/part.sh two; ln one deep/sub/part.sh; mv evil.sh deep/sub/part.sh",
		} {
			f := newFixture(t, setup{fallback: careful, confiner: wrap})
			replaceFile(t, f.ws+"/deep/sub/part.sh", "echo approved\n")
			replaceFile(t, f.ws+"/evil.sh", "echo evil\n")
			f.answer(t, func(p approval.Pending) { f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"}) })
			task := f.start(t, map[string]any{"command": fmt.Sprintf(
				"echo ready; until [ -e started ]; do sleep 0.02; done; { %s; } 2>/dev/null; touch go; until [ -e over ]; do sleep 0.02; done; echo echo later > new.sh; mv new.sh deep/sub/part.sh && echo free", attack)})
			f.read(t, task.TaskID, "ready")
			r, e := f.call(context.Background(), "shell", line("touch started; until [ -e go ]; do sleep 0.02; done; . deep/sub/part.sh").args)
			if out := textOf(r); e != nil || !strings.HasPrefix(out, "approved") {
				t.Errorf("%s: %q, %v", attack, out, e)
			}
			writeFile(t, f.ws+"/over", "")
			if out, _ := f.read(t, task.TaskID, ""); !strings.Contains(out, "free") {
				t.Errorf("%s: afterwards the task cannot change the file: %q", attack, out)
			}
		}
	})
}
