package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A terminalDay is a shell in tmux, in a directory of its own, from which programs are run
// as a person runs them.
type terminalDay struct {
	*screen
	dir string
}

func newTerminalDay(t *testing.T) terminalDay {
	t.Helper()
	needsScreens(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	d := terminalDay{newScreenOf(t, dir, "exec env PS1='outside$ ' bash --norc --noprofile", 100, 30), dir}
	d.see("outside$")
	return d
}

// types enters a line.
func (d terminalDay) types(line string) {
	d.t.Helper()
	d.tmux("send-keys", "-l", line)
	d.tmux("send-keys", "Enter")
}

// keys presses keys by their names.
func (d terminalDay) keys(names ...string) {
	d.t.Helper()
	d.tmux(append([]string{"send-keys"}, names...)...)
}

// prompt waits for the shell outside: what is typed before that is the program's.
func (d terminalDay) prompt() {
	d.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.HasSuffix(strings.TrimSpace(d.text()), "outside$"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("no prompt:\n%s", d.text())
		}
	}
}

// fresh empties the screen.
func (d terminalDay) fresh() {
	d.t.Helper()
	d.prompt()
	d.keys("C-l")
	d.gone("sandgate")
}

// TestPageProgramsOnATerminal: what people use on a terminal works in a sandbox as it does
// outside: shells with jobs, pagers, editors, questions, sizes, keys that make signals. And
// what a program does to its own terminal does not reach the person's.
func TestPageProgramsOnATerminal(t *testing.T) {
	d := newTerminalDay(t)

	d.types("sandgate run -- bash --norc --noprofile -i")
	d.see("bash-")
	d.types("tty; stty size; [ -t 0 -a -t 1 -a -t 2 ] && echo all'' three")
	d.see("/dev/pts/")
	d.see("30 100")
	d.see("all three")
	d.tmux("resize-window", "-x", "90", "-y", "25")
	d.types("stty size")
	d.see("25 90")
	d.tmux("resize-window", "-x", "100", "-y", "30")
	d.types("sh -c 'echo go''ing; sleep 1000'") // ^C ends the job and not the shell
	d.see("going")
	d.keys("C-c")
	d.types("echo still'' here")
	d.see("still here")
	d.types("sh -c 'echo wait''ing; cat'") // ^Z and fg
	d.see("waiting")
	d.types("before")
	d.see("before before")
	d.keys("C-z")
	d.see("Stopped sh -c 'echo wait''ing; cat' bash-") // what is typed before the prompt bash may throw away
	d.types("fg")
	d.see("fg sh -c") // its line again: bash has left the terminal to it
	d.types("to the cat")
	d.see("to the cat to the cat")
	d.keys("C-d")
	d.types("exit 7")
	d.see("exit outside$")
	d.types("echo status $?")
	d.see("status 7")
	d.fresh()

	d.types("sandgate run -- sh -c 'echo read''y; cat'") // nobody inside sees to ^Z: the shell outside does
	d.see("ready")
	d.types("first")
	d.see("first first")
	d.keys("C-z")
	d.see("Stopped")
	d.types("stty -a | grep -o ' ican''on'")
	d.see("icanon")
	d.types("fg")
	d.types("second")
	d.see("second second")
	d.keys("C-c")
	d.prompt()
	d.types("echo status $?")
	d.see("status 130")
	d.fresh()

	d.types("sandgate run -- python3 -q")
	d.see(">>>")
	d.types("import os; os.get_terminal_size().columns + 1000")
	d.see("1100")
	d.keys("C-c")
	d.see("KeyboardInterrupt")
	d.types("exit()")
	d.fresh()

	d.types("sandgate run -- node")
	d.see("Type \".help\"")
	d.types("6 * process.stdout.columns")
	d.see("600")
	d.types(".exit")
	d.fresh()

	d.types("seq 1000 | sandgate run -- less") // keys come from the terminal, text from the pipe
	d.see("1 2 3")
	d.keys("G")
	d.see("999 1000")
	d.keys("q")
	d.gone("999")
	d.fresh()

	d.types("sandgate run -- vim -u NONE -N new.txt")
	d.see("~")
	d.types("ihello from vim")
	d.keys("Escape")
	d.types(":wq")
	d.gone("~ ~")
	d.prompt()
	d.types("sandgate run -- cat new.txt")
	d.see("hello from vim")
	d.fresh()

	d.types("sandgate run -- bash -c 'read -rsp \"password: \" x; echo; echo \"it was $x\"'") // as ssh asks
	d.see("password:")
	d.types("secret1")
	d.see("it was secret1")
	if strings.Contains(strings.SplitN(d.text(), "it was", 2)[0], "secret1") {
		t.Errorf("it was shown as it was typed:\n%s", d.text())
	}
	d.fresh()

	d.types("git init -q . && echo one > f && git add f && git -c user.name=a -c user.email=a@b commit -qm one && echo two >> f")
	d.prompt()
	d.types("sandgate run -- git add -p")
	d.see("Stage this hunk")
	d.types("y")
	d.prompt()
	d.types("git diff --cached --stat")
	d.see("1 insertion")
	d.fresh()

	d.types("SHELL=/bin/bash sandgate shell -- --norc --noprofile")
	d.see("bash-")
	d.types("touch /etc/mine")
	d.see("Read-only file system bash-")
	d.types("exit")
	d.fresh()

	d.types("sandgate run -- npm init")
	d.see("package name:")
	d.types("made-inside")
	d.press("Enter", "Is this OK?") // the rest as it is proposed
	d.keys("Enter")
	d.prompt()
	d.types("grep name package.json")
	d.see(`"name": "made-inside"`)
	d.fresh()

	for _, top := range []string{"top", "htop"} {
		d.types("sandgate run -- " + top)
		d.see("PID USER")
		d.see(top + " ") // itself, in its list
		d.keys("q")
		d.fresh()
		d.gone("PID")
	}

	// What is not the screen's does not get out; a real terminal would act on it.
	d.types(`printf '\033]2;mine\007'`)
	title := func() string { return strings.TrimSpace(d.tmux("display-message", "-p", "#{pane_title}")) }
	for deadline := time.Now().Add(30 * time.Second); title() != "mine" && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	d.types(`sandgate run -- printf '\033]2;theirs\007\033]52;c;ZXZpbA==\007\033[6n\033[?1049h\157\156 the other screen'; echo en''ded`)
	d.see("ended")
	if got := title(); got != "mine" {
		t.Errorf("the title is %q", got)
	}
	if text := d.text(); strings.Contains(text, "on the other screen") || strings.Contains(text, ";1R") {
		t.Errorf("left on the screen, or typed by the terminal:\n%s", text)
	}
	d.fresh()

	// One stream redirected is that stream redirected.
	d.types("sandgate run -- sh -c 'for i in 0 1 2; do test -t $i && echo $i >&2; done' > out; wc -l < out")
	d.see("0 2 0")
	d.fresh()
	d.types("sandgate run -- sh -c 'cat; for i in 0 1 2; do test -t $i && echo $i; done; true' < f")
	d.see("one two 1 2")
	d.fresh()

	if _, err := exec.LookPath("tmux"); err == nil { // a terminal in the terminal
		d.types("sandgate run --env TERM=screen -- tmux -L in -f /dev/null new-session 'echo in''side; cat'")
		d.see("inside")
		d.keys("C-c")
		d.gone("inside")
	}
	if err := os.Remove(filepath.Join(d.dir, "new.txt")); err != nil {
		t.Error(err)
	}
}
