package shell

import (
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// TestOnlyListedSyntax: each line holds a command where shells differ from each other or
// from a parser, or where a value is evaluated again. None runs unasked, whatever the
// rules allow, and none slips past a rule that denies. Its neighbour, of listed syntax,
// runs.
func TestOnlyListedSyntax(t *testing.T) {
	for _, c := range []struct{ bad, good string }{
		// Quotes inside an expansion inside double quotes quote nothing.
		{`: "${x:-'$(touch p)'}"`, `: "${x:-a}"`},
		{": \"${x:='`touch p`'}\"", `: "${x-a b}"`},
		{`: "${x:+'$(touch p)'}"`, `: ${x:+a}`},
		{"cat <<E\n${x:-'$(touch p)'}\nE", "cat <<E\n${x:-a} $(ls)\nE"},
		{`cat <<< "${x:-'$(touch p)'}"`, `cat <<< "$x"`},
		{`for i in "${x:-'$(touch p)'}"; do ls; done`, `for i in "$x"; do ls; done`},
		{`[[ "${x:-'$(touch p)'}" ]]`, `[[ "${x%.go}" = a ]]`},
		{`case "${x:-'$(touch p)'}" in a) ls;; esac`, `case "$x" in a) ls;; esac`},
		{`echo "${x/'$(touch p)'/b}"`, `echo "${x/a/b}"`},
		// Values that are evaluated when they are assigned, or later.
		{`declare -a a='($(touch p))'`, "a=b"},
		{`typeset -A a='([$(touch p)]=1)'`, "a=b; ls"},
		{`local a='($(touch p))'`, "export LC_ALL=C"},
		{`a=(); declare a='($(touch p))'`, "a=b; ls $a"},
		{`readonly -a a='($(touch p))'`, "a='($(touch p))'"},
		{`a[$(touch p)]=1`, "a=1"}, {`a=(x y)`, "a=x"}, {"a+=b", "a=b"},
		{`x='a[$(touch p)]'; : $((x))`, ": $((1 + 2))"},
		{`x='a[$(touch p)]' bash -c ': $((x))'`, "bash -c ': $((1))'"},
		{`env x='a[$(touch p)]' bash -c ': $((x))'`, "env bash -c ls"},
		{`COLUMNS='a[$(touch p)]' bash -c ': $((COLUMNS))'`, "COLUMNS=80 ls"},
		{`x=C bash -c ls`, "LC_ALL=C bash -c ls"}, {`env x=C timeout 5 sh -c ls`, "env LC_ALL=C timeout 5 sh -c ls"}, {"LC_ALL=ja_JP.SJIS ls", "LC_ALL=C.UTF-8 ls"}, {"LANG=zh_TW; ls", "LANG=de_DE.utf8; ls"},
		{`[[ x -eq 1 ]]`, "[[ 1 -eq 2 ]]"}, {`[[ -v a[$(touch p)] ]]`, "[[ -n $x ]]"}, {`[ -v 'a[$(touch p)]' ]`, "[ -n \"$x\" ]"},
		{`[ "$a" = b -o "$c" = d ]`, `[ "$a" = b ]`}, {"(( x ))", "true"}, {"let x=1", "x=1"}, {"echo ${x:y:1}", "echo ${x:1:2}"}, {"echo ${a[x]}", "echo ${a[@]}"},
		{"echo ${!x}", "echo ${x}"}, {"echo ${x@P}", "echo ${#x}"}, {"echo $[x]", "echo $x"},
		// Here-documents whose end is not what it looks like.
		{"cat <<\"E\\$F\"\nE$F\ntouch p\nE\\$F", "cat <<\"EF\"\nE$F\ntouch p\nEF"},
		{"cat <<$'E\\x4fF'\nEOF\ntouch p\nE\\x4fF", "cat <<'EOF'\n$(touch p)\nEOF"},
		{"cat <<\"E\\\"F\"\nE\"F\ntouch p\nE\\\"F", "cat <<-EOF\n\ta\n\tEOF\nls"},
		{"cat <<\"E\\\\F\"\nE\\F\ntouch p\nE\\\\F", "cat <<EOF\na \\$x\nEOF\n"},
		{"cat <<E\"O\"F\nb\nEOF", "cat <<EOF\nb\nEOF"}, {"cat <<\\E\nb\nE", "cat <<E\nb\nE"},
		{"echo $(cat <<E)\n$(touch p)\nE", "echo $(cat <<E\n$x\nE\n)"}, {"sh -c 'ls $(cat <<\"E\")\ntouch p\nE'", "sh -c 'ls $(cat <<\"E\"\ntouch p\nE\n)'"}, {"cat <(cat <<E)\na\nE", "cat <(ls)"},
		// Variables that are set by more than a plain assignment.
		{"x=:; {read,x} <<< 'touch p'; $x", "x=:; ls"},
		{"x=ls; $'read' x <<< 'touch p'; $x", "read x <<< 'touch p'"},
		{"r=read; x=ls; $r x <<< 'touch p'; $x", "x=src; ls $x"},
		{"x=ls; mapfile x <<< 'touch p'; $x", "mapfile x <<< a"},
		// Variables of the shell's own, whose values it evaluates, or by which it finds programs.
		{"RANDOM='a[$(touch p)]'; ls", "random='a[$(touch p)]'; ls"}, {"SRANDOM='a[$(touch p)]' ls", "VERBOSE=1 ls"}, {"for HISTCMD in 'a[$(touch p)]'; do ls; done", "for histcmd in 'a[$(touch p)]'; do ls; done"},
		{"read OPTIND <<< 'a[$(touch p)]'", "read optind <<< 'a[$(touch p)]'"}, {"mapfile RANDOM <<< a", "mapfile -t lines <<< a"}, {"unset RANDOM; ls", "unset -v x; ls"}, {"FOO=a; ls", "f00=a; ls"}, {"_=a; ls", "_a=a; ls"},
		{"printf '%n' PATH; ls", "printf '%s\n' PATH; ls"}, {"printf '\\%n' PATH; ls", "printf '\t%-5s %05.2f %%n\n' a 1; ls"}, {"printf \"$x\"; ls", "printf %s \"$x\"; ls"}, {"printf -v x a; ls", "printf -- -v; ls"}, {"printf '%(%s)T' 1", "printf %d 1"},
		// Harmless ones, with a value that those who read it evaluate.
		{"VERBOSE='$(shell touch p)' ls", "VERBOSE='yes' ls"}, {"export VERBOSE='a[$(touch p)]'; ls", "export VERBOSE=1 DEBUG=\"app:x\"; ls"}, {"env VERBOSE='a[$(touch p)]' ls", "env VERBOSE=a ls"}, {"VERBOSE=PATH=0 ls", "RUST_LOG=a,b ls"},
		{"VERBOSE=PATH-- ls", "NODE_ENV=pre-prod ls"}, {"VERBOSE=$x ls", "VERBOSE= ls"}, {"VERBOSE=\"$(ls)\"; ls", "LC_ALL=en_US.UTF-8; ls"}, {"x='a[$(touch p)]'; CI=$x ls", "TZ=Europe/Berlin ls"},
		// Shells that read otherwise.
		{"sh -c '((touch - p))'", "bash -c 'ls'"}, {"sh -c '[[ a > p ]]'", "bash -c '[[ a > p ]]'"}, {`sh -c ": \$'\\'; touch p #'"`, `bash -c ": \$'\\'; touch p #'"`},
		{"dash -c 'ls &> p'", "dash -c 'ls > /dev/null 2>&1'"}, {"sh -c 'cat <(ls)'", "bash -c 'cat <(ls)'"}, {"sh -c 'ls {a,b}'", "bash -c 'ls {a,b}'"}, {"sh -c 'function f { ls; }'", "sh -c '{ ls; }'"},
		{"zsh -c ls", "sh -c ls"}, {"fish -c ls", "dash -c ls"}, {"ash -c ls", "sh -ec ls"}, {"ksh -c ls", "bash -c ls"}, {"csh -c ls", "bash -euc ls"}, {"bash -O extglob -c ls", "bash -xc ls"}, {"bash --posix -c ls", "bash -c -- ls"},
		{"bash <<'E'\nhead -c 5\necho touch p\nE", "cat <<'E'\necho touch p\nE"}, {"echo ls | bash", "echo ls | cat"}, {"bash -s <<< ls", "cat <<< ls"},
		// Quoting that is read in several ways.
		{"echo `echo \\`touch p\\``", "echo `ls`"}, {"echo \"`echo \\\"$(touch p)\\\"`\"", "echo \"`ls a`\""}, {"echo $\"a\"", "echo \"a\""}, {"echo ${x:-<(touch p)}", "cat <(ls)"},
		{"echo {a,'$(touch p)'}", "echo {a,b}"}, {"echo {a,{b,c}}", "echo {1..3}"}, {"echo \"$\\\n(touch p)\"", "echo \"a\\\nb\""}, {"ls # \\\ntouch p", "ls # a\nls"},
		// What changes what words mean.
		{"f() { ls; }; f", "{ ls; }"}, {"select x in a; do ls; done", "for x in a; do ls; done"}, {"for ((;;)); do ls; done", "for x in 1 2; do ls; done"}, {"for x; do ls; done", "for x in \"$@\"; do ls; done"},
		{"coproc ls", "ls &"}, {"ls {x}>/dev/null", "ls 2>/dev/null"}, {"ls @(a|b)", "ls *"}, {"[[ a =~ (b) ]]", "[[ a == b* ]]"}, {"export FOO=a; ls", "foo=a; ls"}, {"export LC_ALL; ls", "export LC_ALL=C; ls"},
		{"POSIXLY_CORRECT=1 ls a -l", "LC_ALL=C ls a -l"}, {"IFS=x; ls", "x=IFS; ls"}, {"PIPESTATUS='($(touch p))'; ls", "y='($(touch p))'; ls"},
	} {
		for _, rules := range []string{"ls;echo;cat;bash;sh;dash;env;head;printf", "ls;allow:*;deny:touch"} {
			if d := decideFor(t, rules, c.bad); d.Effect == tools.Allow || d.Free() {
				t.Errorf("rules %q: %q is %v, free %v: %+v", rules, c.bad, d.Effect, d.Free(), d.Parts)
			}
		}
		if d := decideFor(t, "ls;echo;cat;printf", c.good); d.Effect != tools.Allow {
			t.Errorf("%q is %v: %s", c.good, d.Effect, d.Reason)
		}
	}
}

// TestWhatIsNotListedGetsTheDefault: a default that allows, with no rule that is
// stricter, allows what is not analysed; one that denies, denies it.
func TestWhatIsNotListedGetsTheDefault(t *testing.T) {
	for rules, want := range map[string]tools.Effect{"allow:*": tools.Allow, "allow:*;deny:rm": tools.Ask, "allow:*;ask:make": tools.Ask, "ls": tools.Ask, "deny:*;ls": tools.Deny} {
		if d := decideFor(t, rules, "((x=1)); ls"); d.Effect != want || d.Analysis.Class != Unknown {
			t.Errorf("rules %q: %v, %v, want %v", rules, d.Effect, d.Analysis, want)
		}
	}
}

// TestEnvironmentThatAlters: a variable that changes how bash reads leaves nothing to
// analyse.
func TestEnvironmentThatAlters(t *testing.T) {
	p := mustPolicy(t, Default{Allowed: true, Approval: true}, nil)
	if d := p.Decide("ls", "bash"); !d.Free() {
		t.Fatalf("%+v", d)
	}
	p.altered = "POSIXLY_CORRECT"
	if d := p.Decide("ls", "bash"); d.Free() || d.Effect != tools.Ask {
		t.Errorf("%+v", d)
	}
	for env, want := range map[string]string{"POSIXLY_CORRECT=1": "POSIXLY_CORRECT", "BASH_ENV=x": "BASH_ENV", "SHELLOPTS=": "SHELLOPTS", "FOO=1": ""} {
		if got := (&Tool{Config: Config{Env: []string{"PATH=/bin", env}}}).altering(); got != want {
			t.Errorf("%s: %q", env, got)
		}
	}
}
