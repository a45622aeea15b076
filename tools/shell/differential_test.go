package shell

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/tools"
)

var (
	lines = flag.Int("lines", 20_000, "command lines that TestShellsRunNothingElse makes up")
	seed  = flag.Uint64("seed", 1, "where it begins")
)

// A speaker makes up command lines: of the grammar, with pieces of text in it that one
// reader takes for data and another for a command.
type speaker struct {
	*rand.Rand
	names []string // of variables that shells know
	left  int      // how much more to say
	later []string // bodies of here-documents, for the end of the line
}

func (s *speaker) one(of ...string) string { return of[s.IntN(len(of))] }

// payloads are what should stay text.
var payloads = []string{"$(evil)", "`evil`", "a[$(evil)]", "($(evil))", "([$(evil)]=1)", "; evil;", "\nevil\n", "'$(evil)'", "\"$(evil)\"", "}$(evil)", "$((a[$(evil)]))", "E\nevil\n",
	"\\$(evil)", "<(evil)", "${x:-$(evil)}", "${x:-'$(evil)'}", "&& evil", "| evil", ")evil", "#", "\\", "'", "\"", "x=evil", "evil", "$x", "$'\\''", "{evil,x}", "*", "~", "!"}

func (s *speaker) payload() string { return payloads[s.IntN(len(payloads))] }

func (s *speaker) line() string {
	line := s.command()
	if s.IntN(4) == 0 {
		line = s.setting() + s.one("; ", "\n", " && ", " || ", " ") + s.one("ls", "check", line)
	}
	for s.IntN(3) == 0 {
		line += s.one("; ", " && ", " || ", " | ", "\n", " & ", ";\n", " &&\n") + s.command()
	}
	return line
}

func (s *speaker) command() string {
	if s.left -= 10; s.left < 0 {
		return "ls"
	}
	switch s.IntN(24) {
	case 0:
		return "{ " + s.line() + "; }"
	case 1:
		return "(" + s.line() + ")"
	case 2:
		return "if " + s.command() + "; then " + s.line() + s.one("", "; else "+s.line()) + "; fi"
	case 3:
		return "for x in " + s.words() + "; do " + s.line() + "; done"
	case 4:
		return "case " + s.word() + " in " + s.word() + ") " + s.line() + ";; *) " + s.command() + s.one(";;", ";&", "") + " esac"
	case 5:
		return s.one("while false; do ", "until true; do ") + s.line() + "; done"
	case 6:
		return "[[ " + s.one("", "! ") + s.word() + s.one(" == ", " = ", " -eq ", " < ", " > ", " =~ ", " -nt ", " && ") + s.word() + " ]]"
	case 7:
		return s.one("[ ", "test ") + s.one("-v ", "-n ", "", "! ", "-R ") + s.word() + s.one("", " = ", " -eq ", " -o ") + s.word() + " ]"
	case 8:
		return s.one("((", "let ", "$((", "((x=") + s.arithmetic() + s.one("))", "")
	case 9:
		return s.one("declare ", "local ", "export ", "typeset ", "readonly ", "declare -a ", "declare -A ", "export -n ", "a=(); declare ") + s.assignment()
	case 10:
		return s.one("f() { ", "function f { ", "f() ( ") + s.line() + s.one("; }; f", "; }", " ); f")
	case 11:
		return s.inner()
	case 12:
		return s.one("read ", "{read,x} ", "$'read' ", "mapfile ", "printf -v ", "r=read; $r ", "unset ", "eval ", "trap ", "getopts x ", "exec ", "command ", "builtin ") + s.words() + s.redirection()
	case 13:
		return s.assignment() + s.one("; ", "\n", " && ") + s.command()
	case 14: // a value that may not be given
		return s.one("", "! ", "y=b; ") + s.one("x=a", "x=a y=b") + s.redirection() + s.one("; ", "\n", " && ", " || ") + s.one("run $x evil", "run \"$x\" evil", s.command())
	case 15:
		return s.one("! ", "time ", "coproc ", "{ :; } ", "then ") + s.command()
	}
	return s.prefix() + s.one("ls", "echo", "ls", "echo", ":", "cat", "printf %s", "$x", "l\\s", "'ls'", "\"l\"s", "$'ls'", "l\\\ns", "{ls,echo}") + " " + s.words() + s.redirection()
}

func (s *speaker) prefix() string {
	prefix := ""
	for s.IntN(4) == 0 {
		prefix += s.assignment() + " "
	}
	return prefix
}

func (s *speaker) assignment() string {
	return s.one("x", "y", "COLUMNS", "LC_ALL", "a", "PIPESTATUS", "a[0]", "a[$(evil)]", "IFS", "POSIXLY_CORRECT", "PS4") + s.one("=", "=", "=", "+=", "=(") + s.word() + s.one("", "", "", ")")
}

// setting has a built-in, or an assignment, take a command for data that it evaluates, or set a
// variable that the shell knows.
func (s *speaker) setting() string {
	n := s.one(s.one(s.names...), s.one("RANDOM", "PATH"), "x", "VERBOSE")
	v := s.one(`'a[$(evil)]'`, `'a[$(evil)]'`, `a[\$\(evil\)]`, `"a[\$(evil)]"`, "$x", "a", "0", "PATH=0", "x=0", "PATH--", `'$(evil)'`, s.word())
	return s.one("", "", "x='a[$(evil)]'; ", "x=a; ") + strings.NewReplacer("N", n, "V", v).Replace(s.one("N=V", "N=V check", "N=V; check", "export N=V", "export N=V; check", "N+=V", "for N in V; do ls; done", "for N in a V; do check; done",
		"read N <<< V", "read -r a N <<< V", "read -a V", "read -a N <<< V", "mapfile N <<< V", "mapfile -t V", "mapfile -C V -c 1 N <<< V", "select N in V; do break; done <<< 1", "getopts V N", "getopts a N -V", "unset V", "unset -v N", "wait -p V", "wait -n -p N",
		"printf -v N %s V", "printf -- -v N", "printf V N", "printf %n N", "printf a%n N", "printf '%s%n' V N", "printf '\\%n' N", `printf "a%%%n" N`, "printf %d V", "printf '%*d' V V", "printf '%(V)T' V", "test -v V", "test V -eq V", "[ -t V ]", "[[ -v V ]]", "[[ V -eq 1 ]]",
		"let N=V", "((N=V))", "((V))", "declare N=V", "declare -i N=V", "local N=V", "readonly N=V", "typeset -n N=V", "coproc N { ls; }", "ls {N}>&1", "exec {N}>&1", "cd V", "shift V", "exit V", "return V", "kill V", "jobs -x V", "type V", "history V", "trap V N", "set V",
		"echo ${N}", "echo ${!N}", "echo ${!x}", "echo ${x@P}", "echo ${N:=V}", "echo ${N:V}", "echo ${x:0:V}", "echo ${a[V]}", "echo ${#a[V]}", "echo $((N))", "echo $((V))", "echo $[N]", "env N=V check", "env N=V ls", "timeout 9 env N=V check", "N=V timeout 9 check", "command export N=V", "builtin read N <<< V"))
}

func (s *speaker) inner() string {
	was := s.later // those of the inner script end with it
	s.later = nil
	script := s.prefix() + s.line() + s.bodies()
	s.later = was
	shell := s.one("bash -c ", "sh -c ", "env bash -c ", "env x=y sh -c ", "env "+s.assignment()+" bash -c ", "timeout 9 sh -c ", "xargs sh -c ", "dash -c ", "sh -ec ", "env -i bash -c ", "bash <<< ")
	return s.prefix() + shell + s.one("'"+strings.ReplaceAll(script, "'", `'\''`)+"'", `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(script)+`"`)
}

func (s *speaker) arithmetic() string {
	return s.one("1", "x", "a[0]", "a[$(evil)]", "$x", "${x}", "`evil`", "1+2", "x=1", "x++", "(1)", "touch - evil", "evil") + s.one("", "", "+1", "<2", "?1:2", " evil")
}

func (s *speaker) words() string {
	words := s.word()
	for s.IntN(2) == 0 {
		words += s.one(" ", " ", "\t", " \\\n ") + s.word()
	}
	return words
}

func (s *speaker) word() string {
	word := ""
	for ok := true; ok; ok = s.IntN(3) == 0 {
		word += s.piece()
	}
	return word
}

func (s *speaker) piece() string {
	if s.left--; s.left < 0 {
		return "a"
	}
	switch s.IntN(16) {
	case 0:
		return "'" + s.payload() + "'"
	case 1, 2:
		return `"` + s.inDouble() + `"`
	case 3:
		return "$'" + s.one("a", `\'`, `\\`, `\x27`, `\n`) + s.payload() + "'"
	case 4, 5:
		return s.expansion()
	case 6:
		return "$(" + s.line() + ")"
	case 7:
		return "`" + s.line() + "`"
	case 8:
		return s.one("$((", "$[") + s.arithmetic() + s.one("))", "]")
	case 9:
		return s.one("{a,b}", "{1..3}", "{", "}", "{}", "{a,"+s.payload()+"}", "{'a,b'}")
	case 10:
		return `\` + s.one("a", "$", "`", `"`, "'", `\`, "\n", ";", "&")
	case 11:
		return s.one("<(", ">(") + s.line() + ")"
	case 12:
		return s.payload()
	}
	return s.one("a", "x", "-n", "a b", "é", "1", "=", "a=b", "@(a|b)", "x#y")
}

func (s *speaker) inDouble() string {
	if s.left -= 5; s.left < 0 {
		return "a"
	}
	text := s.one("", "a ")
	for range 1 + s.IntN(2) {
		text += s.one(s.payload(), s.expansion(), "$("+s.line()+")", "`"+s.one("ls", "echo \\`ls\\`", "echo \"a\"")+"`", "'", `\"`, `\$`, `\\`, "$", "$'a'", "\\\n")
	}
	return text
}

func (s *speaker) expansion() string {
	if s.left--; s.left < 0 {
		return "$x"
	}
	name := s.one("x", "y", "a", "#x", "!x", "a[@]", "a[0]", "a[$(evil)]", "1", "@", "*", "?", "COLUMNS")
	op := s.one("", ":-", "-", ":=", "=", ":+", "+", "?", "%", "%%", "#", "##", "/", "//", ":", "@", "^^", ",")
	if op == "" {
		return "${" + name + "}"
	}
	return "${" + name + op + s.one(s.payload(), "a", s.word(), "'"+s.payload()+"'", `"`+s.payload()+`"`, "P", "Q", "1:2") + "}"
}

func (s *speaker) redirection() string {
	switch s.IntN(9) {
	case 0:
		return s.one(" <missing", " >/dev/null", " 2>&1", " </dev/null", " &>/dev/null", " 2>&-", " {x}>/dev/null", " >&2")
	case 1:
		return " <<< " + s.word()
	case 2, 3:
		return s.hereDocument()
	}
	return ""
}

func (s *speaker) hereDocument() string {
	body := s.payload() + s.one("\n", " ", "\\\n") + s.one(s.inDouble(), s.payload(), "$("+s.one("ls", "evil")+")")
	spelled, end := s.one("E", "'E'", `"E"`, `\E`, `"E\$F"`, `$'E\x4f'`, `E"F"`, `'E F'`, "E$x", "`E`"), s.one("E", "E", "E", "E$F", `E\$F`, "EO", "EF", "E F", " E", "\tE")
	s.later = append(s.later, "\n"+body+"\n"+end)
	return s.one(" <<", " <<", " <<-", " <<") + spelled
}

// bodies are the here-documents of the line so far.
func (s *speaker) bodies() string {
	text := strings.Join(s.later, "")
	s.later = nil
	if text != "" && s.IntN(2) == 0 {
		text += "\n" + s.one("evil", "ls", "E", "E\nevil", `E\$F`)
	}
	return text
}

// TestShellsRunNothingElse runs command lines that are made up, and that run unasked, in
// real shells, whose PATH has one program that no rule speaks about and no table knows, and
// one that runs its first word, unless that is the word which its rule names. Another evaluates
// what is in its environment, as scripts do, and in the directory lie programs for a PATH that is a number.
// The first must never run, and no file may be written: where that happens, the shell reads a
// command line otherwise than this package.
func TestShellsRunNothingElse(t *testing.T) {
	d, list := rulesOf(t, "ls;echo;printf;run a;check")
	names := shellNames(t)
	p := mustPolicy(t, d, list)
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			theatre := newTheatre(t, shell)
			s := speaker{Rand: rand.New(rand.NewPCG(*seed, uint64(len(shell)))), names: names}
			ran := 0
			for range *lines {
				s.left, s.later = 20+s.IntN(150), nil
				command := s.line()
				if command += s.bodies(); s.IntN(8) == 0 { // and what is not of the grammar
					from := s.IntN(len(command))
					command = command[:from] + s.payload() + command[from+s.IntN(len(command)-from):]
				}
				if d := p.Decide(command, shell); !strings.Contains(command, "evil") && !strings.Contains(command, "0") && !strings.Contains(command, "%") || d.Effect != tools.Allow && !d.Free() {
					continue
				}
				ran++
				theatre.play(t, command)
			}
			t.Logf("%d of %d lines run unasked", ran, *lines)
			if ran < *lines/400 {
				t.Errorf("%d of %d lines run unasked: too few to show anything", ran, *lines)
			}
		})
	}
}

// shellNames are the variables that bash knows: those that it has, and others of bash(1).
func shellNames(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("bash", "-c", "compgen -v").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(out))
	if !slices.Contains(names, "RANDOM") || !slices.Contains(names, "HISTCMD") {
		t.Fatalf("bash has %q", names)
	}
	return append(names, strings.Fields(`BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_COMPAT BASH_ENV
		BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_XTRACEFD CDPATH CHILD_MAX COLUMNS COMPREPLY COMP_CWORD
		COMP_LINE COMP_WORDBREAKS COPROC DIRSTACK EMACS ENV EPOCHREALTIME EPOCHSECONDS EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST GLOBIGNORE GROUPS HISTCMD
		HISTCONTROL HISTFILE HISTFILESIZE HISTIGNORE HISTSIZE HISTTIMEFORMAT HOME HOSTFILE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LC_ALL LC_COLLATE LC_NUMERIC
		LINENO LINES MAIL MAILCHECK MAILPATH MAPFILE OLDPWD OPTARG OPTERR OPTIND PATH PIPESTATUS POSIXLY_CORRECT PPID PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS3 PS4
		PWD RANDOM READLINE_LINE READLINE_POINT REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM TERM TIMEFORMAT TMOUT TMPDIR UID auto_resume histchars`)...)
}

// A theatre is a directory in which a shell runs command lines.
type theatre struct{ shell, dir, bin, mark string }

func newTheatre(t *testing.T, shell string) *theatre {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Fatalf("%v: scripts/bootstrap installs it", err)
	}
	dir := t.TempDir()
	h := &theatre{path, filepath.Join(dir, "work"), filepath.Join(dir, "bin"), filepath.Join(dir, "ran")}
	for _, d := range []string{h.dir, h.bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const evaluates = "#!BASH\nfor n in $(compgen -e); do case $n in PWD|OLDPWD|PATH|_|SHLVL) ;; *) [[ ${!n} -eq 1 ]] 2>/dev/null; esac; done; ls\n"
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"evil": "#!/bin/sh\n: >" + h.mark + "\n", "ls": "#!/bin/sh\n", "run": "#!/bin/sh\n[ \"$1\" = a ] || \"$1\"\n", "check": strings.ReplaceAll(evaluates, "BASH", bash)} {
		if err := os.WriteFile(filepath.Join(h.bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, number := range []string{"-1", "0", "1"} {
			if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, number), 0o755), os.Symlink(filepath.Join(h.bin, "evil"), filepath.Join(h.dir, number, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, target := range map[string]string{"bash": "bash", "sh": "dash", "dash": "dash", "env": "env", "cat": "cat", "timeout": "timeout", "xargs": "xargs"} {
		target, err := exec.LookPath(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(h.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if h.run(t, "evil &"); os.Remove(h.mark) != nil {
		t.Fatal("the program leaves no mark when the shell runs it in the background")
	}
	return h
}

// play runs a command line that must run nothing else and write nothing.
func (h *theatre) play(t *testing.T, command string) {
	t.Helper()
	h.run(t, command)
	if os.Remove(h.mark) == nil {
		t.Errorf("%q is allowed, and %s runs the other program", command, h.shell)
	}
	left, err := os.ReadDir(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if hasField("-1 0 1", f.Name()) {
			continue
		}
		t.Errorf("%q is allowed, and %s writes %q", command, h.shell, f.Name())
		if err := os.RemoveAll(filepath.Join(h.dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs command, and waits for whatever it leaves in the background: until the
// last process that holds the pipe has gone. What goes on for ever is ended.
func (h *theatre) run(t *testing.T, command string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(h.shell, "-c", command)
	c.Dir, c.Env = h.dir, []string{"PATH=" + h.bin}
	c.ExtraFiles = []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = c.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(30*time.Second, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer end.Stop()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // most of these fail, and may
	if !end.Stop() {
		t.Logf("%q did not end", command)
	}
}
