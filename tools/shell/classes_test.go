package shell

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// rulesOf reads rules in the short form of these tests, separated by ";":
// "git status" allows, "ro:find" allows read-only forms, "deny:rm", "ask:curl",
// "exact:ls -la". An "allow:*" first makes the default allow.
func rulesOf(t testing.TB, s string) (Default, []Rule) {
	t.Helper()
	d := Default{Allowed: true, Approval: true}
	var rules []Rule
	yes, no := true, false
	for each := range strings.SplitSeq(s, ";") {
		each = strings.TrimSpace(each)
		kind, pattern, ok := strings.Cut(each, ":")
		switch {
		case each == "":
		case each == "allow:*":
			d.Approval = false
		case each == "deny:*":
			d.Allowed = false
		case ok && kind == "ro":
			rules = append(rules, Rule{Pattern: pattern, Approval: &no, ReadOnly: true})
		case ok && kind == "exact":
			rules = append(rules, Rule{Pattern: pattern, Approval: &no, Exact: true})
		case ok && kind == "ask":
			rules = append(rules, Rule{Pattern: pattern, Approval: &yes})
		case ok && kind == "deny":
			rules = append(rules, Rule{Pattern: pattern, Allowed: &no})
		default:
			rules = append(rules, Rule{Pattern: each, Approval: &no})
		}
	}
	return d, rules
}

func decideFor(t testing.TB, rules, command string) Decision {
	t.Helper()
	d, list := rulesOf(t, rules)
	return mustPolicy(t, d, list).Decide(command, "bash")
}

type classCase struct{ rules, command string }

// TestNotAllowed lists ways to get more out of a rule than it says, one per
// class and spelling. None may be allowed.
func TestNotAllowed(t *testing.T) {
	for _, c := range []classCase{
		{"git push", "exec -c git push"}, {"busybox ls", "exec -a sh busybox ls"}, {"bash x.sh", "exec -l bash x.sh"},
		// Separators, substitutions, redirections.
		{"ls", "ls\ntouch P"}, {"ls", "ls;touch P"}, {"ls", "ls&&touch P"}, {"ls", "ls||touch P"}, {"ls", "ls|touch P"}, {"ls", "ls |& touch P"},
		{"true", strings.Repeat("true;", 60) + "touch P"},
		{"cat", "cat <<A <<B\na\nA\nb\nB\ntouch P"}, {"ls", "ls # \\\ntouch P"}, {"echo", "echo `touch P`"}, {"echo", "echo `echo \\`touch P\\``"},
		{"echo", "echo ${x:-$(touch P)}"}, {"echo", "echo ${x:=$(touch P)}"}, {"echo", "echo ${x/a/$(touch P)}"}, {"echo", "echo $(( $(touch P) ))"},
		{"echo", "echo $[ $(touch P) ]"}, {"echo", "echo $((a[$(touch P)]))"}, {"echo", "x='a[$(touch P)]'; echo $((x))"}, {"echo", "read x; echo $((x))"},
		{"echo", `echo "${a[$(touch P)]}"`}, {"echo", `${a="$"}${b="$a(touch P)"}${b@P}`}, {"echo", `x=y; echo ${!x}`}, {"echo", "echo >(touch P)"},
		{"test", "test -v 'a[$(touch P)]'"}, {"[", "[ -v 'a[$(touch P)]' ]"}, {"echo", "[[ -v 'a[$(touch P)]' ]] && echo"}, {"echo", "[[ 'a[$(touch P)]' -eq 0 ]]"},
		{"printf", "printf -v 'a[$(touch P)]' x"}, {"printf", "printf '-v' 'a[$(touch P)]' x"}, {"let", "let 'a[$(touch P)]=1'"}, {"let", "let x=1&&touch"}, {"let", "let x=1|touch"}, {"echo", "echo ${x:-<(touch P)}"}, {"echo", "echo ${x:-$<(touch P)}"}, {"echo", "echo ${x/a/>(touch P)}"}, {"echo", "[[ a =~ <(touch P) ]] && echo"}, {"declare", "declare -i x='a[$(touch P)]'"},
		{"declare", "declare 'a[$(touch P)]=1'"}, {"export", "export 'a[$(touch P)]=1'"}, {"wait", "wait -p 'a[$(touch P)]'"}, {"getopts", "getopts a 'a[$(touch P)]'"},
		{"echo", "(( a[$(touch P)] ))"}, {"echo", "for ((i=a[$(touch P)];;)); do echo; done"}, {"echo", "select x in $(touch P); do echo; done"},
		{"echo", "if touch P; then echo; fi"}, {"echo", "until touch P; do echo; done"}, {"echo", "echo ${ touch P;}"}, {"echo", "time touch P"}, {"echo", "! touch P"},
		{"echo", "cat <<<$(touch P)"}, {"echo;cat", "cat <<EOF\n$(touch P)\nEOF"}, {"echo;cat", "cat <<EOF\n${x:-`touch P`}\nEOF"}, {"ls", "ls 2>OUT"}, {"ls", "ls >&OUT"},
		{"ls", "ls >>OUT"}, {"ls", "ls <>OUT"}, {"ls", "ls &>>OUT"}, {"ls", "ls 3>OUT"}, {"ls", ">OUT"}, {"ls", "for f in a; do ls; done >OUT"}, {"ls", "f() { ls; } >OUT; f"},
		{"ls", "ls > $x"}, {"ls", "ls >/dev/udp/1.2.3.4/5"}, {"ls", "if ls; then ls; fi >OUT"}, {"cat", "cat < /etc/shadow"}, {"ls", "exec >OUT; ls"}, {"ls", "ls > ~/x"},
		{"ls", "ls $\\\n(touch P)"}, {"ls", "ls <\\\n(touch P)"}, {"ls", "ls &\\\n& touch P"}, {"ls", "ls \"`touch P`\""},
		// Values that look like options, options that look like values, words read from files.
		{"sort", "sort -tk -oOUT f"}, {"sort", "sort -tk --compress-program=./x f"}, {"rg", "rg -ee --pre=./x y"}, {"curl", "curl -dd -o OUT x"}, {"go test", "go test -v -exec ./x ./..."}, {"go test", "go test -v -toolexec ./x ./..."},
		{"ro:od", "od -w /etc/shadow"}, {"ro:strings", "strings @/etc/shadow"}, {"ro:strings", "strings -n @/etc/shadow f"}, {"ro:strings", "strings @f"}, {"ro:xxd", "xxd -ps f OUT"}, {"ro:xxd", "xxd -ps OUT OUT"},
		{"ro:xxd", "xxd f -g1"}, {"xxd", "xxd f -g1"}, {"ro:git", "git branch --sort -l new"}, {"ro:git", "git tag --sort -l new"}, {"ro:git", "git branch --format -l new"}, {"ro:git", "git config core.pager -l ./x"},
		{"ro:git", "git config user.name --list x"}, {"ro:git", "git diff -U /etc/shadow f"}, {"ro:git", "git log -U /etc/shadow"}, {"ro:git", "git merge-tree HEAD other"}, {"jobs", "jobs -x touch P"}, {"jobs", "jobs -lx touch P"},
		{"sg", "sg root -c 'touch P'"}, {"run-parts", "run-parts ."}, {"newgrp", "newgrp"},
		// The environment and rebound names.
		{"git diff", "GIT_EXTERNAL_DIFF=x git diff"}, {"ls", "LD_PRELOAD=./x.so ls"}, {"ls", "BASH_ENV=x ls"}, {"ls", "FOO=1 ls"}, {"ls", "export LD_PRELOAD=x; ls"},
		{"ls", "declare -x PATH=.; ls"}, {"ls", "typeset PATH=.; ls"}, {"ls", "readonly PATH=.; ls"}, {"ls", "PATH+=:. ; ls"}, {"ls", "for PATH in .; do ls; done"}, {"ls", "read PATH; ls"},
		{"ls", "printf -v PATH x; ls"}, {"ls", ": ${PATH:=.}; ls"}, {"ls", "unset PATH; ls"}, {"ls", "alias ls='touch P'\nls"}, {"ls", "ls() { touch P; }; ls"}, {"ls", "shopt -s expand_aliases; ls"},
		{"ls", "set -a; ls"}, {"ls", "set -- -x; ls"}, {"ls", "trap 'touch P' EXIT; ls"}, {"ls", "enable -f ./x.so y; ls"}, {"ls", "IFS=x ls"}, {"ls", "PS4='$(touch P)'; set -x; ls"},
		{"ls", "env LD_PRELOAD=x ls"}, {"ls", "env -i PATH=. ls"}, {"ls", "env -S 'touch P'"}, {"ls", "export FOO=1; ls"}, {"ls", "LC_ALL=/tmp/x ls"}, {"date", "TZ=/etc/shadow date"},
		{"ls", "mapfile PATH; ls"}, {"ls", "exec {PATH}<f; ls"}, {"ls", "'export' PATH=.; ls"}, {"ls", "command export PATH=.; ls"}, {"ls", "builtin export PATH=.; ls"}, {"ls", "(PATH=.; ls)"},
		{"exact:ls", "ls -l"}, {"exact:ls", "ls $x"}, {"exact:ls", "FOO=1 ls"}, {"echo", "function test { touch P; }; echo"}, {"echo", "cd() { :; }; cd /; echo"},
		// Program identity.
		{"ls", "./ls"}, {"ls", "bin/ls"}, {"ls", "../bin/ls"}, {"ls", "/tmp/ls"}, {"ls", "/usr/bin/../../tmp/ls"}, {"ls", "~/ls"}, {"ls", "l?"}, {"ls", "LS"}, {"ls", "ls.sh"}, {"./run.sh", "cd sub && ./run.sh"},
		{"ls", "\"ls \""}, {"ls", "$'ls\\n'"}, {"ls", "ls\u00a0-la"}, {"ls", "ls\u200b"}, {"ls", "\u202els"}, {"echo", "echo \x1b[8m"}, {"ls", "ls\r"}, {"echo", "echo a\u2028b"}, {"ls", "ls \xff"},
		// Wrappers.
		{"timeout", "timeout 5 touch P"}, {"timeout", "timeout -s KILL 5 touch P"}, {"nice", "nice -n 5 touch P"}, {"env", "env touch P"}, {"env", "env A=1 touch P"},
		{"stdbuf", "stdbuf -oL touch P"}, {"setsid", "setsid touch P"}, {"ionice", "ionice -c2 touch P"}, {"command", "command touch P"}, {"exec", "exec touch P"}, {"builtin", "builtin eval x"},
		{"xargs", "ls | xargs touch"}, {"xargs", "xargs -I{} touch {}"}, {"xargs", "xargs -I% sh -c 'touch %'"}, {"xargs;sh", "xargs sh -c"}, {"xargs;echo", "xargs -I{} {}"}, {"sudo", "sudo touch P"},
		{"ls", "sudo ls"}, {"sudo;ls", "sudo -s"}, {"sudo;ls", "sudo -i"}, {"busybox", "busybox touch P"}, {"busybox", "busybox sh -c 'touch P'"}, {"parallel", "parallel touch ::: P"}, {"chroot", "chroot / touch P"},
		{"script", "script -c 'touch P' /dev/null"}, {"time", "/usr/bin/time -o OUT ls"}, {"flock", "flock f -c 'touch P'"}, {"watch", "watch 'touch P'"}, {"su", "su -c 'touch P'"}, {"unshare", "unshare -r touch P"},
		{"bash", "bash -c 'touch P'"}, {"bash", "bash -c \"$x\""}, {"bash", "bash x.sh"}, {"sh", "echo touch P | sh"}, {"bash", "bash -lc ls"}, {"bash;ls", "bash --rcfile x -c ls"}, {"bash", "bash <x.sh"},
		{"ls", "bash -c 'ls; touch P'"}, {"ls", "sh -c \"sh -c 'touch P'\""}, {"bash", "bash <<<'touch P'"}, {"bash", "bash <<EOF\ntouch P\nEOF"}, {"ls", "bash -ic ls"}, {"ls", "bash -o posix -c ls"}, {".", ". ./x"},
		{"ls", "strace ls"}, {"find", "find . -exec touch {} +"}, {"find", "find . -delete"}, {"find", "find . -fprintf OUT x"}, {"find;ls", "find . -exec ls {} ';' -delete"}, {"find", "find . -execdir sh -c 'touch P' ';'"},
		{"find;ls", "find . -exec {} ';'"}, {"find", "find . -exec bash -c 'touch P' _ {} +"},
		// Read-only forms.
		{"ro:find", "find . -fls OUT"}, {"ro:find", "find . -fprint0 OUT"}, {"ro:find", "find . ${x:--exec} touch P ';'"}, {"ro:find", "find / -name x"}, {"ro:find", "find . -newer /etc/shadow"},
		{"ro:find", "find . -name $x"}, {"ro:find", "find . {-delete,-print}"}, {"ro:find", "find . -files0-from x"}, {"ro:find", "find . -\\delete"}, {"ro:find", "find ../.. -name x"}, {"ro:find", "find ~root"},
		{"ro:sort", "sort -oOUT f"}, {"ro:sort", "sort --output=OUT f"}, {"ro:sort", "sort --compress-prog=x f"}, {"ro:sort", "sort -uo OUT f"}, {"ro:sort", "sort -T /x f"}, {"ro:sort", "sort *"}, {"ro:sort", "sort -k1 -o OUT"},
		{"ro:sort", "sort --files0-from=x"}, {"ro:sort", "sort $x"}, {"ro:sort", "sort \"$@\""}, {"ro:sort", "sort --o OUT"},
		{"ro:sed", "sed 1e f"}, {"ro:sed", "sed 's/x/y/e' f"}, {"ro:sed", "sed 's/x/y/w OUT' f"}, {"ro:sed", "sed -n '/x/w OUT' f"}, {"ro:sed", "sed -ni 1p f"}, {"ro:sed", "sed --in-place 1d f"}, {"ro:sed", "sed --in-pl 1d f"},
		{"ro:sed", "sed -f x f"}, {"ro:sed", "sed -e 1d -e 'w OUT' f"}, {"ro:sed", "sed 'r /etc/shadow' f"}, {"ro:sed", "sed '1!e touch P' f"}, {"ro:sed", "sed 's,x,y,;w OUT' f"}, {"ro:sed", "sed \"$x\" f"}, {"ro:sed", "sed -Ei 1d f"},
		{"ro:sed", "sed 's/a/b/;1e' f"}, {"ro:sed", "sed '$!{w OUT\n}' f"}, {"ro:sed", "sed -s -i.bak 1d f"}, {"ro:sed", "sed p /etc/shadow"}, {"ro:sed", "sed 'W OUT' f"}, {"ro:sed", "sed 's/x/y/pw OUT' f"}, {"ro:sed", "sed 'y/a/b/;e' f"},
		{"ro:sed", "sed 'b x;w OUT' f"}, {"ro:sed", "sed '/a/,/b/ w OUT' f"}, {"ro:sed", "sed 'a foo' -e 'w OUT' f"}, {"sed", "echo x | sed 'w OUT'"}, {"sed", "sed '1e touch P' f"}, {"sed", "sed -i 1d f"}, {"sed", "sed -f x"},
		{"ro:awk", "awk 'BEGIN{\"touch P\"|getline}'"}, {"ro:awk", "awk '{print|\"sh\"}' f"}, {"ro:awk", "awk '{print >> \"OUT\"}' f"}, {"ro:awk", "awk '{printf \"x\" > \"OUT\"}' f"}, {"ro:awk", "awk -f x f"}, {"ro:awk", "awk -i inplace 1 f"},
		{"ro:awk", "awk '@load \"x\"'"}, {"ro:awk", "awk 'BEGIN{f=\"system\";@f(\"x\")}'"}, {"ro:awk", "awk 'BEGIN{ARGV[1]=\"/etc/shadow\"}1' f"}, {"ro:awk", "awk 1 /etc/shadow"}, {"ro:awk", "awk \"$x\" f"}, {"ro:awk", "awk '{ if (x) /\"/; system(\"x\") }' f"},
		{"ro:awk", "awk 'BEGIN{while((getline l < \"/etc/shadow\")>0) print l}'"}, {"awk", "awk 'BEGIN{system(\"touch P\")}'"}, {"awk", "awk '{print > $1}' f"}, {"ro:awk", "awk -v 'x=1' -e 'BEGIN{system(\"x\")}'"},
		{"ro:rg", "rg --pre=x y"}, {"ro:rg", "rg --pre x y"}, {"ro:rg", "rg -z y"}, {"ro:rg", "rg --hostname-bin=x y"}, {"ro:rg", "rg --search-zip y"}, {"ro:rg", "rg x /etc"}, {"ro:rg", "rg -f /etc/shadow x"}, {"rg", "rg --pre x y"}, {"rg", "rg -nz y"},
		{"ro:grep", "grep -f /etc/shadow x"}, {"ro:grep", "grep x /etc/shadow"}, {"ro:grep", "grep -e x /etc/shadow"}, {"ro:grep", "grep x ~/.ssh/id_rsa"}, {"ro:grep", "grep -r x .."}, {"ro:grep", "grep x $f"}, {"ro:cat", "cat /proc/self/environ"},
		{"ro:cat", "cat .e*"}, {"ro:cat", "cat src/../../x"}, {"ro:cat", "cat ~root/x"}, {"ro:cat", "cat /workspace/../etc/shadow"}, {"ro:cat", "cat {.env,x}"}, {"ro:cat", "cd .. && cat x"}, {"ro:cat", "cat \"$HOME/.ssh/id_rsa\""}, {"ro:cat", "cd src; cat ../../x"}, {"ro:cat", "cd src; cat ../x"}, {"ro:cat", "cd src || cat ../x"}, {"ro:cat", "cd a && cd b; cat ../../x"}, {"ro:cat", "! cd src && cat ../x"}, {"ro:cat", "while cd ..; do cat x; done"}, {"ro:cat", "f() { cd ..; }; f; cat x"}, {"ro:cat", "cd -P l && cat x"}, {"ro:cat", "cd -; cat x"}, {"ro:cat", "cd $x; cat y"}, {"ro:cat", "cd src | cat ../x"},
		{"ro:head", "head -n1 /etc/shadow"}, {"ro:tail", "tail -c +1 -- /etc/shadow"}, {"ro:wc", "wc --files0-from=/etc/x"}, {"ro:uniq", "uniq a OUT"}, {"ro:xxd", "xxd -r a OUT"}, {"ro:tree", "tree -o OUT"}, {"ro:tree", "tree --fromfile /etc/x"},
		{"ro:date", "date -s 2000-01-01"}, {"ro:date", "date --set=x"}, {"ro:date", "date -f /etc/shadow"}, {"ro:hostname", "hostname x"}, {"ro:file", "file -C -m x"}, {"ro:file", "file -f /etc/x"}, {"ro:file", "file -z x"},
		{"ro:jq", "jq -n env"}, {"ro:jq", "jq -n '$ENV.A'"}, {"ro:jq", "jq -n '{a:env}'"}, {"ro:jq", "jq -e '$ENV.A'"}, {"ro:jq", "jq -n '. as $x|(env)'"}, {"ro:jq", "jq -n 'import \"c\" as $d {search: \"/w\"}; $d'"}, {"ro:jq", "jq -n 'include \"c\"; .'"}, {"ro:jq", "jq -n \"$x\""}, {"ro:jq", "jq -n 'get_search_list'"}, {"ro:jq", "jq -n '\"a\"|modulemeta'"}, {"ro:jq", "jq -f /etc/x ."}, {"ro:jq", "jq -L . 'import \"a\" as a; 1' f"}, {"ro:jq", "jq --slurpfile a /etc/x . f"}, {"ro:jq", "jq . /etc/shadow"}, {"ro:jq", "jq --arg x --rawfile y /etc/shadow ."}, {"ro:jq", "jq --rawfile $x"}, {"ro:git", "git config user.name x"}, {"ro:history", "history -c"}, {"ro:history", "history -r /x"}, {"ro:man", "man ./x"}, {"ro:man", "man -P x y"},
		{"ro:man", "man -Hx y"}, {"ro:tee", "tee OUT"}, {"ro:python3", "python3 -c 1"}, {"ro:python3", "python3 x.py"}, {"ro:env", "env x"}, {"ro:npm", "npm test"}, {"ro:diff", "diff --to-file=/etc/x a"}, {"ro:du", "du --files0-from=x"},
		{"ro:shuf", "shuf -o OUT f"}, {"ro:base64", "base64 /etc/shadow"}, {"ro:less", "less f"}, {"ro:cut", "cut -d: -f1 /etc/passwd"}, {"ro:stat", "stat /etc/x"}, {"ro:ls", "ls /"}, {"ro:ls", "ls ~"}, {"ro:printf", "printf -v x y"}, {"ro:realpath", "realpath /etc/x"},
		// git.
		{"ro:git", "git -c core.fsmonitor=x status"}, {"ro:git", "git -c alias.x='!touch P' x"}, {"ro:git", "git --exec-path=. status"}, {"ro:git", "git --work-tree=/ status"}, {"ro:git", "git log --output=OUT"}, {"ro:git", "git log --outp=OUT"},
		{"ro:git", "git diff --ext-diff"}, {"ro:git", "git diff --no-index /etc/shadow x"}, {"ro:git", "git diff /dev/null /etc/shadow"}, {"ro:git", "git diff --output OUT"}, {"ro:git", "git show --textconv x"}, {"ro:git", "git branch new"}, {"ro:git", "git branch -D x"},
		{"ro:git", "git tag x"}, {"ro:git", "git remote add x y"}, {"ro:git", "git config x y"}, {"ro:git", "git config --global x y"}, {"ro:git", "git stash"}, {"ro:git", "git commit -m x"}, {"ro:git", "git push"}, {"ro:git", "git fetch"}, {"ro:git", "git checkout x"},
		{"ro:git", "git show HEAD:.env"}, {"ro:git", "git grep --open=x y"}, {"ro:git", "git grep -Ox y"}, {"ro:git", "git -p log"}, {"ro:git", "git archive HEAD -o OUT"}, {"ro:git", "git reflog expire --all"}, {"ro:git", "git symbolic-ref HEAD x"}, {"ro:git", "git bisect run x"},
		{"ro:git", "git ls-remote ext::sh"}, {"ro:git", "git help x"}, {"ro:git", "git $x"}, {"ro:git", "git log $x"}, {"ro:git", "git log *"}, {"ro:git", "git worktree add x"}, {"ro:git", "git notes add x"}, {"ro:git", "git submodule update"}, {"ro:git", "git status x/../../y"}, {"ro:git", "git config --list --file=/x"},
		{"ro:git", "git cat-file --filters HEAD:x"}, {"ro:git", "git blame --contents /etc/shadow f"}, {"ro:git", "git ls-files -X /etc/shadow"}, {"ro:git", "git diff -O/etc/shadow"}, {"ro:git", "git rev-list --use-bitmap-index --disk-usage --x"}, {"ro:git", "git diff-files --no-index /a /b"},
		{"git", "git -c core.pager=x log"}, {"git", "git bisect run x"}, {"git", "git submodule foreach x"}, {"git", "git fetch --upload-pack=x ."}, {"git", "git clone ext::sh"}, {"git", "git push --receive-p=x"}, {"git fetch", "git fetch --upload-p x ."}, {"git clone", "git clone -c core.x=y z"},
		{"git config", "git config alias.x '!y'"}, {"git rebase", "git rebase -x 'touch P' HEAD"}, {"git rebase", "git rebase --exec x"}, {"git grep", "git grep -Ox y"}, {"git grep", "git grep --open-files-in-pager=x y"}, {"git difftool", "git difftool -x y"}, {"git log", "git log --output=OUT"},
		{"git status", "git -C evil status"}, {"git status", "git --git-dir=x status"}, {"git status", "cd evil; git status"}, {"git status", "git --config-env=x=y status"}, {"git filter-branch", "git filter-branch --tree-filter x"}, {"git diff", "git diff --ext-diff"}, {"git diff", "(cd evil && git diff)"},
		{"git commit", "git commit -m \"$(touch P)\""}, {"git commit", "git commit $x"}, {"git add", "git add *"}, {"git clone", "git clone --template=x y"}, {"git archive", "git archive --remote=x --exec=y"}, {"git clone", "git clone -u x y"},
		// Programs that run what a word names.
		{"tar", "tar xf a --checkpoint-action=exec=x"}, {"tar", "tar -xIf x a"}, {"tar", "tar xIf x a"}, {"tar", "tar xf a --use-compress-prog=x"}, {"tar", "tar xf a --to-c=x"}, {"tar", "tar cf x *"}, {"tar", "tar -xf a -F x"}, {"tar xf", "tar xf a --info-script=x"},
		{"python3", "python3 x.py"}, {"python3", "python3 -m x"}, {"python3", "python3"}, {"perl", "perl -e 1"}, {"perl", "perl -ne 1 f"}, {"node", "node -e 1"}, {"node", "node -p 1"}, {"ruby", "ruby x"}, {"php", "php -r 1"}, {"vim", "vim -c '!x'"}, {"ssh", "ssh host x"},
		{"make", "make SHELL=./x"}, {"make", "make -f x"}, {"make test", "make test evil"}, {"make test", "make test CC=x"}, {"make", "make -C x"}, {"make", "make --eval=x"}, {"go test", "go test -exec x"}, {"go build", "go build -toolexec x"}, {"go", "go run x.go"}, {"go vet", "go vet -vettool=x"},
		{"less", "less '+!touch P' f"}, {"less", "less +!x f"}, {"man", "man -P x y"}, {"man", "man --pager=x y"}, {"zip", "zip -TT x a b"}, {"zip", "zip a b -T -TT x"}, {"split", "split --filter=x f"}, {"split", "split --filt x f"}, {"rsync", "rsync -e x a b"}, {"rsync", "rsync --rsh=x a b"},
		{"npm run build", "npm run build --script-shell=x"}, {"npm", "npm exec x"}, {"npm", "npm --prefix x test"}, {"npm run", "npm run $x"}, {"npx", "npx x"}, {"docker", "docker run x"}, {"cargo test", "cargo test --config x"}, {"pytest", "pytest --rootdir=x"}, {"pytest", "pytest -o x=y"}, {"pytest", "pytest $x"},
		{"curl https://a.example", "curl https://a.example.evil"}, {"curl", "curl -o OUT https://x"}, {"curl", "curl -sSLo OUT https://x"}, {"curl", "curl -K x"}, {"uniq", "uniq a b"}, {"xxd", "xxd a b"}, {"fd", "fd -x touch"}, {"fd", "fd --exec x"}, {"sort", "sort --compress-program=x f"}, {"date", "date -s x"},
		{"psql", "psql -c '\\! x'"}, {"sqlite3", "sqlite3 x '.shell y'"}, {"gdb", "gdb -ex '!x'"}, {"eslint", "eslint --rulesdir x"}, {"jest", "jest --config x"}, {"pip install", "pip install -e ."}, {"mytool", "mytool $x"}, {"mytool", "mytool --exec=x"}, {"crontab", "crontab x"}, {"at", "at now"},
		// What cannot be read.
		{"ls", "ls ("}, {"ls", "ls 'x"}, {"ls", "if ls"}, {"ls", "ls <<EOF"}, {"ls", "ls !(x)"}, {"ls", strings.Repeat("(", 100) + "ls" + strings.Repeat(")", 100)}, {"ls", "ls " + strings.Repeat("x", 70000)}, {"ls", strings.Repeat("ls;", 5000)},
		{"ls", "$x"}, {"ls", "$x ls"}, {"ls", "\"$x\""}, {"ls", "$(echo ls)"}, {"ls", "''"}, {"ls", "x= ; $x touch P"}, {"ls", "(x=ls); $x touch P"}, {"ls", "false && x=ls; $x"}, {"ls", "x=ls; x=touch; $x P"}, {"ls", "f() { x=touch; }; x=ls; f; $x P"}, {"ls", "if false; then f() { :; }; fi; f"},
		{"ls", "f() { \"$@\"; }; f touch P"}, {"ls", "for x in ls; do x=touch; $x P; done"}, {"ls", "for x in $y; do $x; done"}, {"ls", "coproc ls"}, {"ls", "select x in a; do ls; done"}, {"ls", "f; f() { ls; }"}, {"ls", "eval ls"}, {"ls", "source ls"}, {"ls", "exec -a x $y"},
	} {
		if d := decideFor(t, c.rules, c.command); d.Effect == tools.Allow {
			t.Errorf("rules %q allow %q: %+v", c.rules, c.command, d.Parts)
		}
	}
}

// TestAllowed lists everyday commands that rules for their parts cover.
func TestAllowed(t *testing.T) {
	for _, c := range []classCase{
		{"ls", "  ls   -la  "}, {"ls", "ls -la /etc"}, {"ls", "ls *.go"}, {"ls", "ls 2>&1"}, {"ls", "ls >/dev/null 2>&1"}, {"ls", "ls &> /dev/null"}, {"ls", "ls > /dev/stderr"}, {"ls;cat", "cat < f.txt"}, {"ls", "(ls)"}, {"ls", "{ ls; }"}, {"ls", "/bin/ls"}, {"ls", "/usr/bin/ls -l"},
		{"ls", "if [ -f x ]; then ls; fi"}, {"ls", "[[ -f x && $y == z* ]] && ls"}, {"ls", "test -d x || ls"}, {"ls", "[ \"$x\" = y ] && ls"}, {"ls", "[ -n \"$x\" ] && ls"}, {"ls", "[ $# -eq 0 ] || ls"}, {"ls", "while true; do ls; sleep=1; break; done"},
		{"echo", "x=1; echo $x"}, {"echo", "echo $HOME \"$USER\" $?"}, {"echo", "echo $((1 + 2 * 3))"}, {"echo", "for i in {1..3}; do echo \"$i\"; done"}, {"echo", "echo ${x:-default} ${#x} ${x%.go} ${x//a/b}"},
		{"echo", "case $x in a|b) echo 1;; *) echo 2;; esac"}, {"echo", "set -euo pipefail; echo x"}, {"echo", "set -e\necho x"}, {"cat", "cat <<'EOF'\n$(x)\nEOF"}, {"cat", "cat <<EOF\nplain $x\nEOF"}, {"echo;cat", "while read -r l; do echo \"$l\"; done < f"},
		{"ls", "command -v ls"}, {"ls", "timeout 5 ls"}, {"ls", "timeout -k 5s 10s ls"}, {"ls", "nice -n 10 ls"}, {"ls", "nohup ls &"}, {"ls", "env ls"}, {"ls", "env LC_ALL=C ls"}, {"ls", "stdbuf -oL ls"}, {"ls", "time ls"}, {"ls", "exec ls"}, {"ls", "bash -c 'ls -l'"}, {"ls", "sh -c 'ls && ls'"},
		{"find;grep", "find . -name '*.go' | xargs grep foo"}, {"ro:find;grep", "find . -name '*.go' -print0 | xargs -0 grep -n foo"}, {"find;grep", "find . -name '*.go' -exec grep -l foo {} +"}, {"find;wc", "find . -type f -exec wc -l {} \\;"}, {"ls;wc", "ls | xargs -I{} wc -l {}"},
		{"cat", "for f in *.txt; do cat \"$f\"; done"}, {"ro:cat", "for f in *.txt; do cat \"$f\"; done"}, {"ro:wc", "wc -l a.go b.go"}, {"ro:wc", "wc -l src/*.go"}, {"ro:head", "head -20 f"}, {"ro:head", "head -n 20 -- f"}, {"ro:tail", "tail -n +5 f"}, {"ro:tail", "tail -f log"},
		{"ro:sort", "sort -t, -k2,2nr f"}, {"ro:sort", "cd sub && sort f"}, {"ro:sort", "sort --key=2 --reverse f"}, {"ro:grep", "grep -rn --include='*.go' 'a|b' src"}, {"ro:grep", "grep -A3 -B 2 x f"}, {"ro:grep", "grep -e '-x' f"}, {"ro:rg", "rg -tgo 'x y' src"}, {"ro:rg", "rg --files -g '*.go'"},
		{"ro:sed", "sed -n '1,20p' f"}, {"ro:sed", "sed -e 's/a/b/' -e '/^#/d' f"}, {"ro:sed", "sed -E 's#(a|b)#x#gI;10q' f"}, {"ro:sed", "sed -n '/start/,/end/{/x/p}' f"}, {"ro:sed", "sed '$!N;s/\\n/ /' f"}, {"ro:sed", "sed '/^$/d' f"},
		{"ro:awk", "awk '{print $1, $NF}' f"}, {"ro:awk", "awk 'NR>1 && $3 > 5 {s+=$2} END {print s/NR}' f"}, {"ro:awk", "awk -F'[,;]' '/a|b/ {printf \"%s\\n\", $2}' f"}, {"ro:awk", "awk -v n=3 'NR==n' f"}, {"ro:awk", "awk '{a[$1]++} END {for (k in a) print k, a[k]}' f"}, {"ro:awk", "awk 'length($0) > 80' f"},
		{"ro:find", "find src -type f \\( -name '*.c' -o -name '*.h' \\) -size +1k -print"}, {"ro:find", "find . -maxdepth 2 -newer f -mtime -1"}, {"ro:find", "find . -path ./x -prune -o -print"}, {"ro:ls", "ls -la --color=auto src"}, {"ro:ls", "ls -d */"}, {"ro:cat", "cat src/a.go ./b.go"}, {"ro:cat", "cd src && cat ../a.go"}, {"ro:cat", "true && cd a && cd b && cat ../../a.go"}, {"ro:cat", "(cd src && cat b.go); cat a.go"}, {"npm test", "cd web && npm test"},
		{"ro:git", "git status"}, {"ro:git", "git status --porcelain=v1 -b"}, {"ro:git", "git log --oneline -20 --graph --all"}, {"ro:git", "git log -p --since='2 weeks' -- src/a.go"}, {"ro:git", "git diff --stat HEAD~1..HEAD"}, {"ro:git", "git diff --cached -U5"}, {"ro:git", "git show HEAD:src/a.go"}, {"ro:git", "git branch -a"}, {"ro:git", "git branch --show-current"},
		{"ro:git", "git remote -v"}, {"ro:git", "git stash list"}, {"ro:git", "git rev-parse --abbrev-ref HEAD"}, {"ro:git", "git ls-files '*.go'"}, {"ro:git", "git blame -L 10,20 f"}, {"ro:git", "git -C . log"}, {"ro:git", "git config --get user.name"}, {"ro:git", "git tag -l 'v*'"}, {"ro:git", "git log -S'foo bar' -G x"}, {"ro:git", "git -c color.ui=never diff"}, {"ro:git", "git grep -n foo -- '*.go'"},
		{"git commit;cat", "git commit -m \"$(cat <<'EOF'\nmessage; rm -rf /\nEOF\n)\""}, {"git commit", "git commit -m \"fix #12\" \\\n  -m x"}, {"ls", "ls # a\n# b\nls"}, {"git add", "git add -A"}, {"git add", "git add src/a.go"}, {"git commit", "git commit -am 'x; y'"}, {"git push", "git push -u origin main"}, {"git status", "cd . && git status"}, {"git status", "git --no-pager status"}, {"git", "git rebase main"}, {"git log;cat", "git log --format='%H' | cat || true;true"},
		{"npm run build -- --flag", "npm run build -- --flag"}, {"npm test", "CI=1 npm test"}, {"go test", "go test -run 'A|B' -count=1 ./..."}, {"go", "go build ./..."}, {"cargo test", "cargo test --release"}, {"make", "make -j4 all"}, {"make test", "make test -s"}, {"python3 -m pytest", "python3 -m pytest -q tests"}, {"python3", "python3 --version"}, {"python3 manage.py", "python3 manage.py test app"}, {"node", "node --version"},
		{"tar", "tar -xzf a.tar.gz -C out"}, {"tar tf", "tar tf a.tar"}, {"curl https://a.example", "curl https://a.example -s"}, {"pytest", "pytest -q tests/test_a.py -k 'a and b'"}, {"./run.sh", "./run.sh x"}, {"./run.sh", "run=1; ./run.sh"}, {"ro:jq", "jq -r '.a[] | .b' f.json"}, {"ro:jq", "jq --arg x y '.[$x] | .environment' f.json"}, {"ro:git", "git config user.name"}, {"ro:rg", "rg -uu --hidden x"}, {"ro:node", "node -v"}, {"echo", "echo 'a<(b)' \"c<(d)\""}, {"ro:jq", "cat=1; jq . f.json"}, {"ro:diff", "diff -u a b"}, {"ro:diff", "diff <(true) b"}, {"ro:date", "date -u +%F"}, {"ro:date", "date 010100002000"}, {"ro:jq", "jq -n '.env, .[0].import, $env'"}, {"ro:date", "date"}, {"ro:stat", "stat -c %s f"},
		{"exact:ls -la", "ls -la"}, {"exact:ls", "ls 2>/dev/null"}, {"mkdir;touch", "mkdir -p a/b && touch a/b/c"}, {"deny:*;ls", "ls | ls"}, {"deny:rm;ls", "ls"}, {"ask:git;ls", "ls"}, {"git status;ask:git", "git status"}, {"allow:*;deny:rm", "make && npm test"}, {"allow:*;deny:rm", "x=1 y=2 make"}, {"allow:*;deny:git push", "git log --format=push"}, {"allow:*;deny:rm -rf", "rm -r x"}, {"allow:*", "python3 x.py"},
		{"ls", "ls \\\n  -l \\\n  -a"}, {"ls", "l\\\ns"}, {"ls", "'l'\"s\""}, {"ls", "$'\\x6cs'"}, {"ls", "ls;"}, {"ls", ""}, {"ls", "# only a comment"}, {"echo", "echo \"⚠️ ok\""}, {"echo", "echo 'a;b|c>d&e`f$(g)'"}, {"echo", "read -r x y < f; echo \"$x\""}, {"ls", "exit 0"}, {"ls", "ls || exit 1"}, {"echo", "local_x=1; unset local_x; echo"}, {"ls", "export LC_ALL=C NO_COLOR=1; ls"},
		{"ro:od", "od -An -tx1 -w4 f"}, {"ro:od", "od -w f"}, {"ro:strings", "strings -n 8 f"}, {"ro:xxd", "xxd -g 1 -l 16 f"}, {"ro:xxd", "xxd -p f"}, {"ro:git", "git branch --sort=-committerdate"},
		{"ro:git", "git branch --list --sort -committerdate 'x*'"}, {"ro:git", "git for-each-ref --sort -refname --format '%(refname)'"}, {"ro:git", "git log --date short --max-count 3 -U3"}, {"ro:git", "git diff --unified=1 f"}, {"ro:git", "git config --list --show-origin"}, {"sort", "sort -t k -k 2 f"},
		{"rg", "rg -e x -g '*.go' src"}, {"go test", "go test -v -run A -count 1 ./..."}, {"jobs", "jobs -l"}, {"xxd", "xxd -g 1 f"},
		{"allow:*;deny:rm", "some-runner rmdir x"}, {"allow:*;deny:git push", "some-runner git status push"}, {"allow:*;deny:rm", "grep rm x"}, {"allow:*;deny:rm", "npm run rm"}, {"allow:*;deny:rm -rf", "some-tool rm x"},
	} {
		if d := decideFor(t, c.rules, c.command); d.Effect != tools.Allow {
			t.Errorf("rules %q: %v for %q: %s", c.rules, d.Effect, c.command, d.Reason)
		}
	}
}

// TestDenied lists disguises that a rule that denies sees through.
func TestDenied(t *testing.T) {
	for _, command := range []string{
		"rm x", "r\\m x", "'r'm x", "$'\\x72m' x", "$'\\u0072\\155' x", "{rm,x}", "\\rm x", "/bin/rm x", "./rm x", "//bin/./rm x", "rm", "(rm x)", "{ rm x; }", "ls; rm x", "ls | rm x", "! rm x", "time rm x", "rm x &", "if rm x; then :; fi", "if :; then :; else rm x; fi",
		"while :; do rm x; done", "for i in a b; do rm $i; done", "case a in *) rm x;; esac", "f() { rm x; }; f", "function f { rm x; }", "echo $(rm x)", "echo \"`rm x`\"", "echo ${a:-$(rm x)}", "cat <(rm x)", "cat <<EOF\n$(rm x)\nEOF",
		"[[ -n $(rm x) ]]", "a=($(rm x))", "a[$(rm x)]=1", "A=1 rm x", "PATH=. rm x", ">out rm x", "rm<x", "command rm x", "command -p rm x", "builtin rm x", "exec rm x", "env rm x", "env -i rm x", "env A=1 rm x", "env -u B A=1 rm x", "nohup rm x", "nice rm x", "nice -n 5 rm x",
		"timeout 5 rm x", "timeout --signal=KILL 5s rm x", "timeout -k 1 5 rm x", "stdbuf -o0 rm x", "setsid rm x", "ionice -c 3 rm x", "sudo rm x", "sudo -u root rm x", "doas rm x", "xargs rm", "xargs -0 -n1 rm -f", "xargs -I{} rm {}", "find . -exec rm {} \\;", "find . -ok rm {} \\;", "find . -execdir rm {} +",
		"bash -c 'rm x'", "sh -c 'ls; rm x'", "bash -ec 'rm x'", "bash -lc 'rm x'", "eval rm x", "eval 'rm x'", "trap 'rm x' EXIT", "watch rm x", "busybox rm x", "chroot / rm x", "flock f rm x", "flock f -c 'rm x'", "script -c 'rm x'", "su -c 'rm x'", "strace rm x", "env env env rm x", "env nice timeout 3 rm x",
		"coproc rm x", "echo hi\nrm x", "rm\\\n x", "r\\\nm x", "rm # c", "true && (true || (true; rm x))", "echo \"$(echo \"$(rm x)\")\"", "select x in a; do rm x; done", "until rm x; do :; done", "time -p rm x", "let x=1; rm x", "$(rm x)", "\"$(rm x)\" y",
		"for ((;;)); do rm x; done", "[ -f x ] && rm x", "rm --help", "parallel rm ::: x", "bash --norc -c 'rm x'", "/usr/bin/env rm x", "parallel rm ::: x", "nice -5 rm x", "unshare -r rm x", "exec -a ls rm x", "time /bin/rm x", "xargs sh -c 'rm x'", "find . -exec sh -c 'rm x' \\;",
	} {
		if d := decideFor(t, "allow:*;deny:rm", command); d.Effect != tools.Deny {
			t.Errorf("%v for %q: %+v", d.Effect, command, d.Parts)
		}
	}
}

// TestDoubted lists what may be, or does the same as, what a rule denies.
func TestDoubted(t *testing.T) {
	for _, c := range []classCase{
		{"deny:rm", "for i in rm; do $i x; done"}, {"deny:rm", "let x=1&&rm"}, {"deny:rm", "let x=1|rm"}, {"deny:rm", "x=rm; $x y"}, {"deny:rm", "x=rm; \"$x\" y"}, {"deny:rm", "bash <<< 'rm x'"}, {"deny:rm", "bash <<'E'\nrm x\nE"}, {"deny:rm", "ls # \\\nrm x"},
		{"deny:rm", "$x y"}, {"deny:rm", "/bin/r?"}, {"deny:rm", "$(echo rm) x"}, {"deny:rm", "echo cm0geA== | base64 -d | sh"}, {"deny:rm", "sh x.sh"}, {"deny:rm", "./x.sh"}, {"deny:rm", "python3 -c x"}, {"deny:rm", "perl x"}, {"deny:rm", "find . -delete"}, {"deny:rm", "git clean -fd"}, {"deny:rm", "mv x /tmp"},
		{"deny:rm", "unlink x"}, {"deny:rm", "source x"}, {"deny:rm", "eval \"$x\""}, {"deny:rm", "bash -c \"$x\""}, {"deny:rm", "bash < x"}, {"deny:rm", "alias x=rm"}, {"deny:rm -rf", "rm -fr x"}, {"deny:rm -rf", "rm -r -f x"}, {"deny:rm -rf", "rm -Rf x"}, {"deny:rm -rf", "rm --recursive --force x"}, {"deny:rm -rf", "rm x -rf"},
		{"deny:rm -rf", "rm -rvf x"}, {"deny:rm -rf", "rm $x"}, {"deny:rm -rf", "rm -r --force x"}, {"deny:git push", "git -C . push"}, {"deny:git push", "git --git-dir=x push"}, {"deny:git push", "git -c a=b push"}, {"deny:git push", "git $x"}, {"deny:git push", "git {push,x}"}, {"deny:git push", "git -x push"}, {"deny:npm publish", "npm --silent publish"}, {"deny:npm publish", "npm --foo publish"},
		{"deny:git push --force", "git push origin --force"}, {"deny:git push --force", "git push origin main --force"}, {"deny:git push -f", "git push origin -f"}, {"deny:git push --force", "git push -f"}, {"deny:docker rm", "docker --context x rm"}, {"deny:curl", "wget x"}, {"deny:rm", "awk 'BEGIN{system(\"rm x\")}'"}, {"deny:rm", "sed '1e rm x' f"}, {"deny:rm", "tar xf a --to-command=x"}, {"deny:rm", "ssh h rm x"},
		{"deny:rm", "PATH=x ls"}, {"deny:rm", "vim -c '!rm x'"}, {"deny:rm", "echo x | xargs -I{} {} y"}, {"deny:rm", "find . -exec {} +"}, {"deny:rm", "env -S 'rm x'"}, {"deny:rm", "npx rimraf x"}, {"deny:rm", "git -c alias.x='!rm y' x"}, {"deny:rm", "make SHELL=x"}, {"deny:rm", "docker run x rm y"},
		// Programs that run their words: known ones, the dynamic loader, and any that no table knows.
		{"deny:rm", "prlimit rm x"}, {"deny:rm", "prlimit --nproc=9 rm x"}, {"deny:rm", "choom -n 0 -- rm x"}, {"deny:rm", "choom -n 0 $x"}, {"deny:rm", "/lib64/ld-linux-x86-64.so.2 /bin/rm x"}, {"deny:rm", "ld.so $(command -v rm) x"},
		{"deny:rm", "x86_64 rm x"}, {"deny:rm", "gosu root rm x"}, {"deny:rm", "some-runner --flag rm x"}, {"deny:rm", "some-runner exec -- /bin/rm x"}, {"deny:git push", "some-runner git push origin"}, {"deny:rm", "jobs -x rm x"},
	} {
		if d := decideFor(t, "allow:*;"+c.rules, c.command); d.Effect == tools.Allow {
			t.Errorf("rules %q allow %q: %+v", c.rules, c.command, d.Parts)
		}
	}
}
