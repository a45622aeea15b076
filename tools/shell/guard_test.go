package shell

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// TestRulesCoverWhatTheyName: a rule for a program covers no option that its table does
// not list, no sub-command that nobody knows, wherever it stands, and no word that is
// code. What the pattern spells is the person's own.
func TestRulesCoverWhatTheyName(t *testing.T) {
	for _, c := range []struct{ rules, bad, good string }{
		{"git submodule", "git submodule --quiet foreach 'touch p'", "git submodule"}, {"git", "git merge-index ./evil -a", "git merge main"}, {"git", "git remote-ext x 'sh -c ls'", "git remote -v"},
		{"git", "git send-pack", "git push origin main"}, {"git", "git unknown-alias", "git log -3"}, {"git", "git --exec-path=x log", "git --no-pager log"}, {"git log", "git log --unknown", "git log --stat"},
		{"npm", "npm --yes exec -- touch p", "npm test"}, {"npm", "npm --workspaces exec touch", "npm ls"}, {"npm", "npm --yes init x", "npm run build"}, {"npm", "npm init x", "npm ci"}, {"pnpm", "pnpm -r exec touch", "pnpm test"}, {"yarn", "yarn node -e 1", "yarn test"},
		{"install", "install -s --strip-program=./evil a b", "install a b"}, {"sqlite3 app.db", "sqlite3 app.db '.shell touch p'", "sqlite3 app.db"}, {"ssh build-host", "ssh build-host -o ProxyCommand=x", "ssh build-host"}, {"vim notes.txt", "vim notes.txt '+!touch p'", "vim notes.txt"},
		{"curl", "curl --hsts p https://x", "curl -fsS https://x"}, {"hg status", "hg status --config hooks.pre-status=x", "hg status a"}, {"svn diff", "svn diff --diff-cmd x", "svn diff a"}, {"kubectl get", "kubectl get --kubeconfig x", "kubectl get"}, {"helm template", "helm template --post-renderer x", "helm template ./a"},
		{"psql mydb", "psql mydb -c '\\! x'", "psql mydb"}, {"pandoc", "pandoc --filter x a.md", "pandoc a.md"}, {"gcc", "gcc @file", "gcc a.c"}, {"c++", "c++ -Bx a.cc", "c++ a.cc"}, {"clang++", "clang++ -fplugin=x a", "clang++ a"}, {"rustc", "rustc -C linker=x a.rs", "rustc a.rs"},
		{"javac", "javac -processorpath x A.java", "javac A.java"}, {"openssl dgst", "openssl dgst -engine x", "openssl dgst a"}, {"tcpdump", "tcpdump -z x", "tcpdump port"}, {"apt-get update", "apt-get update -o APT::Update::Pre-Invoke=x", "apt-get update"}, {"ctest", "ctest -S x", "ctest -V"},
		{"bazel test", "bazel test --run_under=x //a", "bazel test //a"}, {"dotnet build", "dotnet build -p:PreBuildEvent=x", "dotnet build a"}, {"uv", "uv run sh -c x", "uv --version"}, {"eslint", "eslint -c x", "eslint --fix src"}, {"npx eslint", "npx eslint -c x", "npx eslint"},
		{"pytest", "pytest -p evil", "pytest -q tests"}, {"python3 -m pytest", "python3 -m pytest -p evil", "python3 -m pytest -q tests"}, {"python3 x.py", "python3 x.py --unknown", "python3 x.py a b"}, {"mytool", "mytool --unknown", "mytool a b"}, {"./run.sh", "./run.sh -x", "./run.sh a"},
		{"mytool --known", "mytool --known --unknown", "mytool --known a"}, {"go", "go run x.go", "go vet ./..."}, {"go build", "go build -toolexec x", "go build -race ./..."}, {"cargo", "cargo +evil build", "cargo test --release"}, {"rm", "rm --unknown x", "rm -rf x"}, {"ls", "ls --unknown", "ls -la --color=auto"},
		{"tar", "tar xf a -I ./evil", "tar xzf a.tgz -C out"}, {"rsync", "rsync -e x a b", "rsync -av a b"}, {"date", "date -s x", "date +%s"}, {"sort", "sort --compress-program=x", "sort -u a"}, {"docker ps", "docker ps --unknown", "docker ps"},
		{"npm run build", "npm run build -- '--eval=$(shell id)'", "npm run build"}, {"npm run", "npm run lint -- -vettool=./x", "npm run lint"}, {"npm test", "npm test -- --require=./x", "npm test a.test.js"}, {"npm run build", "npm run build X=1", "npm run build -s"},
		{"pnpm test", "pnpm test -- --config x", "pnpm test"}, {"yarn build", "yarn build --config x", "yarn build"}, {"cargo test", "cargo test -- --exec=x", "cargo test name"}, {"bun test", "bun test -- --preload=x", "bun test a"},
		{"pytest", "pytest @args", "pytest tests"}, {"python3 -m pytest", "python3 -m pytest @/tmp/args", "python3 -m pytest tests"}, {"mypy", "mypy @x", "mypy src"}, {"go vet", "go vet -- -vettool=./x .", "go vet ."}, {"go vet", "go vet . -- -vettool=./x", "go vet -v ."}, {"ruff", "ruff check @x", "ruff check src"}, {"npm install", "npm install --prefix=x", "npm install @types/node"},
	} {
		if d := decideFor(t, c.rules, c.bad); d.Effect == tools.Allow {
			t.Errorf("rule %q allows %q", c.rules, c.bad)
		}
		if d := decideFor(t, c.rules, c.good); d.Effect != tools.Allow {
			t.Errorf("rule %q: %q is %v: %s", c.rules, c.good, d.Effect, d.Reason)
		}
		if d := decideFor(t, "exact:"+c.good, c.good); d.Effect != tools.Allow {
			t.Errorf("exact rule: %q is %v: %s", c.good, d.Effect, d.Reason)
		}
	}
}

// TestDeniesSeeLikenesses: under a default that allows, what is a version, a variant or
// another name of what a rule denies, or could run it, is asked about.
func TestDeniesSeeLikenesses(t *testing.T) {
	for _, c := range []struct{ rules, bad, good string }{
		{"deny:git push", "git send-pack", "git log"}, {"deny:git push", "git subtree push", "git status"}, {"deny:npm install", "npm i", "npm test"}, {"deny:npm install", "npm add x", "npm ls"}, {"deny:npm publish", "npm pub", "npm run x"},
		{"deny:rm", "vim.tiny -c '!rm x'", "ls"}, {"deny:rm", "perl5.36.0 -e 'unlink 1'", "grep rm x"}, {"deny:rm", "lua5.4 -e x", "some-runner a"}, {"deny:rm", "ts-node x.ts", "make"}, {"deny:rm", "nodemon -x 'rm x'", "npm test"},
		{"deny:rm", "svn diff --diff-cmd=rm", "svn info"}, {"deny:rm", "install -s --strip-program=rm a", "cp a b"}, {"deny:rm", "bash-static -c 'rm x'", "bash -c ls"}, {"deny:rm", "python3.11 -c x", "python3 --version"}, {"deny:rm", "original-awk 'BEGIN{system(\"rm x\")}'", "original-awk '{print}' f"},
		{"deny:rm", "nice2 rm x", "nice ls"}, {"deny:rm", "timeout.sh 5 ls", "timeout 5 ls"},
	} {
		if d := decideFor(t, "allow:*;"+c.rules, c.bad); d.Effect == tools.Allow {
			t.Errorf("rules %q allow %q", c.rules, c.bad)
		}
		if d := decideFor(t, "allow:*;"+c.rules, c.good); d.Effect != tools.Allow {
			t.Errorf("rules %q: %q is %v: %s", c.rules, c.good, d.Effect, d.Reason)
		}
	}
}

// TestDeniesSeeOtherNames: what may be another name of what a rule denies, or stands where
// no table reads, is asked about, also where a table is wrong.
func TestDeniesSeeOtherNames(t *testing.T) {
	for _, c := range []struct{ rules, bad, good string }{
		{"deny:pip install", "pip3 install x", "pip list"}, {"deny:pip install", "pip3.12 install x", "pip3 list"}, {"deny:pip install", "python3 -m pip install x", "python3 -m this"},
		{"deny:pip install", "python3.11 -Im pip --quiet install x", "python3 x.py"}, {"deny:pip install", "python3 -mpip install x", "python3 -mthis"}, {"deny:pip install", "uv pip install x", "uv sync"},
		{"deny:pip3 install", "pip install x", "pip3 list"}, {"deny:python3", "python3.11 x.py", "pypy x.py"}, {"deny:gcc", "gcc-12 a.c", "gcov a.c"}, {"deny:clang", "/opt/x/clang-15 a.c", "clang-format a.c"}, {"deny:mkfs", "mkfs.ext4 x", "mkdir x"},
		{"deny:cargo test", "cargo t", "cargo build"}, {"deny:cargo build", "cargo b", "cargo test"}, {"deny:cargo check", "cargo c", "cargo tree"}, {"deny:cargo publish", "cargo +stable publish", "cargo doc"}, {"deny:cargo publish", "cargo my-alias", "cargo --version"},
		{"deny:cargo test", "cargo +nightly test", "cargo fmt"}, {"deny:git push", "git p", "git log push"}, {"deny:git push", "git my-alias", "git commit -m push"}, {"deny:git push", "git-push origin", "git show"}, {"deny:git push", "xargs --unheard git push", "xargs git log"},
		{"deny:docker run", "docker container run x", "docker ps"}, {"deny:docker rmi", "docker image rm x", "docker logs x"}, {"deny:docker-compose", "docker compose up", "docker ps"}, {"deny:docker compose", "docker-compose up", "docker ps"},
		{"deny:npm publish", "npx npm@latest publish", "npm ls"}, {"deny:npm publish", "npm p", "npm test"}, {"deny:rm", "./nice rm x", "nice ls x"}, {"deny:rm", "sub/timeout 5 rm x", "timeout 5 ls"}, {"deny:rm", "/opt/busybox rm x", "/opt/busybox ls x"},
		{"deny:rm", "setarch -R rm x", "setarch x86_64 ls"}, {"deny:rm", "xargs -I rm ls", "xargs -I % ls %"}, {"deny:rm", "tar xf a --to-command=rm", "tar xf a rm"}, {"deny:rm", "tar xf a --to-command 'rm -f'", "tar xf a"}, {"deny:rm", "go build -toolexec 'sh -c \"rm x\"' .", "go build ."},
		{"deny:rm", "python3 -c 'import os; os.system(\"rm x\")'", "python3 -c 'print(1)'"}, {"deny:git push", "ssh host 'cd x && git push'", "ssh host ls"},
	} {
		if d := decideFor(t, "allow:*;"+c.rules, c.bad); d.Effect == tools.Allow {
			t.Errorf("rules %q allow %q", c.rules, c.bad)
		}
		_, rules := rulesOf(t, c.rules)
		confined := &Tool{Config: Config{Default: Default{Allowed: true, Approval: true, Confined: true}}}
		if d, _ := confined.settled(mustPolicy(t, confined.Default, rules).Decide(c.bad, "bash")); d.Effect == tools.Allow {
			t.Errorf("where the sandbox decides, rules %q let %q run", c.rules, c.bad)
		}
		good := decideFor(t, "allow:*;"+c.rules, c.good)
		if good.RuleIndex >= 0 && good.Effect != tools.Allow {
			t.Errorf("rules %q: %q is %v: %s", c.rules, c.good, good.Effect, good.Reason)
		}
	}
}

// TestReadOnlySedPrints: a delimiter in brackets is text for GNU sed, and hides no command.
func TestReadOnlySedPrints(t *testing.T) {
	for _, script := range []string{"s/[/A/;s#]/x/w OUT#b#", "/[/]p;s#]/w OUT#x#", "s/[]/]a/b/w OUT", "1i\\", "a\\\nw OUT", "s/a/\\\nw OUT/", ":x\nw OUT"} {
		if d := decideFor(t, "ro:sed;sed", "sed '"+script+"' f"); d.Effect == tools.Allow {
			t.Errorf("%q is allowed", script)
		}
	}
	for _, script := range []string{"s/^[[:space:]]*//", "s/[^0-9]//g", "1~2p", "0,/x/d", "s|/usr|/opt|", ":a;N;$!ba;s/\\n/ /g", "s/\\[x\\]/y/", "/a/I,+3p", "1i hello"} {
		if d := decideFor(t, "ro:sed", "sed '"+script+"' f"); d.Effect != tools.Allow {
			t.Errorf("%q is %v: %s", script, d.Effect, d.Reason)
		}
	}
}

// TestReadOnlyAwkPrints: newlines, continuations, comments and operators after which awk
// goes on reading a statement do not hide a redirection, nor does a quote in an expression.
func TestReadOnlyAwkPrints(t *testing.T) {
	for _, program := range []string{"/\"/ {print > \"x\"} /\"/", "{ print a, # ;\nb > \"OUT\" }", "/[/]|\"/ {print > \"x\"}", "/[^]/]\"/ {print > \"x\"} /\"/", "{x=1/2; print | x; y=3/4}", "{ print /a/ > \"x\" }", "{if (x) /\"/; print > \"x\" \"/\"}", "{ print \"x\" |& \"cat\" }", "#\"\n{print > \"x\"}",
		"BEGIN{print \"x\",\n\"y\" > \"Makefile\"}", "BEGIN{print \"x\" \\\n> \"Makefile\"}", "BEGIN{print 1 &&\n1 > \"Makefile\"}", "BEGIN{print 1 ||\n1 > \"Makefile\"}", "{print\n$1 > 2}"} {
		if d := decideFor(t, "ro:awk;awk", "awk '"+program+"'"); d.Effect == tools.Allow {
			t.Errorf("%q is allowed", program)
		}
	}
	for _, program := range []string{"$1/2 > 1 {print NR/s, \"x\"}", "$0 ~ /x>y|z/ {print \"z|\" $1}", "{gsub(/[,|]/, \"\"); print}", "!seen[$0]++", "/start/,/end/", "$1 > 2 {print}", "{print; if ($1 > 2) x++}", "NR > 1 {print $1}\nEND {print NR}"} {
		if d := decideFor(t, "ro:awk", "awk '"+program+"' f"); d.Effect != tools.Allow {
			t.Errorf("%q is %v: %s", program, d.Effect, d.Reason)
		}
	}
}

// TestTable: the table says what it says once, and nothing else than it may.
func TestTable(t *testing.T) {
	for _, bad := range []string{"reed ls", "read ls operands=fils", "read ls flogs=a", "wrap x skip=y", "global git flag=-x", "rule ls operands=files"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q loads", bad)
				}
			}()
			mustLoad(bad)
		}()
	}
	for name := range known().inert {
		if known().coded[name] != "" || known().wrappers[name] != nil {
			t.Errorf("%q is inert, and runs others", name)
		}
		if known().rules[name] == nil && name != "test" {
			t.Errorf("of %q no options are listed", name)
		}
	}
	for name := range known().reads {
		if known().coded[name] != "" && !strings.Contains(name, "/") {
			t.Errorf("%q reads, and runs code", name)
		}
	}
}

// TestCautions: a rule for a program that runs others says so.
func TestCautions(t *testing.T) {
	no := false
	for pattern, want := range map[string]string{
		"python3": "names the script", "python3 -u": "names the script", "perl5.36.0": "names the script", "ssh build-host": "only the words of its pattern", "npm exec": "only the words of its pattern", "git submodule": "only the words of its pattern",
		"env": "another program", "sudo": "another program", "timeout 5": "another program", "vim.tiny": "only the words of its pattern", "bash": "names the script",
		"python3 x.py": "", "python3 -m pytest": "", "ls": "", "git log": "", "npm test": "", "make test": "", "mytool": "",
	} {
		got := Rule{Pattern: pattern, Approval: &no}.Caution()
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
	for _, r := range []Rule{{Pattern: "python3"}, {Pattern: "python3", Allowed: &no}, {Pattern: "python3 -c 1", Exact: true, Approval: &no}} {
		if got := r.Caution(); got != "" {
			t.Errorf("%+v: %q", r, got)
		}
	}
}

// TestOtherRepositoriesMayBeDirectories: git starts the hooks of a repository to which it
// pushes, and takes a name that no remote has for a directory. A rule covers what lies on
// another machine, where a clone is from, and what its pattern names.
func TestOtherRepositoriesMayBeDirectories(t *testing.T) {
	for _, c := range []struct {
		rule, command string
		want          tools.Effect
	}{
		{"git push", "git push ./evil.git HEAD:refs/heads/x", tools.Ask},
		{"git push", "git push evil HEAD:refs/heads/x", tools.Ask},
		{"git push", "git push -u -- /srv/evil.git main", tools.Ask},
		{"git push", "git push file:///srv/evil.git main", tools.Ask},
		{"git push", "git push FILE:///srv/evil.git main", tools.Ask},
		{"git push", "git push ./a:b main", tools.Ask},
		{"git push", "git push . HEAD:refs/heads/x", tools.Ask},
		{"git push", "git push x$remote main", tools.Ask},
		{"git push -u", "git push -u evil", tools.Ask},
		{"git", "git -C sub push evil", tools.Ask},
		{"git fetch", "git fetch ../evil", tools.Ask},
		{"git pull", "git pull evil main", tools.Ask},
		{"git clone", "git clone evil.git out", tools.Ask},
		{"git clone", "git clone origin out", tools.Ask},
		{"git ls-remote", "git ls-remote ./evil", tools.Ask},
		{"git push", "git push", tools.Allow},
		{"git push", "git push -u origin HEAD:refs/heads/x", tools.Allow},
		{"git push", "git push git@code.example:a/b.git main", tools.Allow},
		{"git push", "git push https://code.example/a/b main", tools.Allow},
		{"git push fork", "git push fork HEAD:refs/heads/x", tools.Allow},
		{"git push -u ./mirror.git", "git push -u ./mirror.git main", tools.Allow},
		{"git fetch", "git fetch --all", tools.Allow},
		{"git clone", "git clone ssh://code.example/a/b out", tools.Allow},
	} {
		if d := decideFor(t, c.rule, c.command); d.Effect != c.want {
			t.Errorf("rule %q: %q is %v, want %v: %s", c.rule, c.command, d.Effect, c.want, d.Reason)
		}
	}
}

// TestGitSpeaksWithOtherMachines: what a rule lets git speak with has the protocols of other
// machines, and that of directories only where the words name one. What the sandbox holds to
// a class, and what the configuration lets be, has git's own.
func TestGitSpeaksWithOtherMachines(t *testing.T) {
	const network, local = "git:http:https:ssh", "file:git:http:https:ssh"
	for _, c := range []struct{ rules, command, want string }{
		{"git push", "git push origin main", network},
		{"git push", "git push", network},
		{"git", "git -C . push origin", network},
		{"git fetch", "timeout 9 git fetch --all", network},
		{"exact:git push origin main", "git push origin main", network},
		{"git push;ls", "ls && bash -c 'git push origin feature/x'", network},
		{"git push fork", "git push fork feature/x", network},
		{"git remote update", "git remote update", network},
		{"git submodule update", "git submodule update", network},
		{"git push ./mirror.git", "git push ./mirror.git main", local},
		{"git push -u ./mirror.git;git push", "git push -u ./mirror.git main; git push origin", network},
		{"ls", "git push origin", network}, // asked about: what a pattern would let run
		{"git status", "git status", ""},
		{"git commit", "git commit -m 'push origin'", ""},
		{"allow:*", "git push origin", ""},
		{"ls", "git ls-remote origin", network},
		{"ls", "ls", ""},
	} {
		if got := (&Tool{}).unasked(decideFor(t, c.rules, c.command))["GIT_ALLOW_PROTOCOL"]; got != c.want {
			t.Errorf("rules %q: %q has %q, want %q", c.rules, c.command, got, c.want)
		}
	}
	if own := (&Tool{Config: Config{Env: []string{"GIT_ALLOW_PROTOCOL=file"}}}).unasked(decideFor(t, "git push", "git push"))["GIT_ALLOW_PROTOCOL"]; own != "" {
		t.Errorf("the configuration has its own: %q", own)
	}
}

// TestNobodyEdits: what a rule or an answer to another call lets run finds no editor and no pager: they
// would take their orders from the line's own input, or from whoever types into the call's terminal.
func TestNobodyEdits(t *testing.T) {
	for _, c := range []struct {
		rules, command string
		want           bool
	}{
		{"git commit", "git commit <<< ':!touch made'", true},
		{"git commit", "git commit < orders", true},
		{"git add", "git add -p doc < orders", true},
		{"crontab -e", "crontab -e", true},
		{"ls", "git commit", true}, // asked about: what a pattern would let run
		{"allow:*", "git commit", false},
	} {
		env := (&Tool{Config: Config{Env: []string{"EDITOR=vim"}}}).unasked(decideFor(t, c.rules, c.command))
		for _, name := range []string{"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL", "GIT_PAGER", "PAGER"} {
			if (env[name] != "") != c.want {
				t.Errorf("rules %q: %q has %s=%q, want one: %t", c.rules, c.command, name, env[name], c.want)
			}
		}
	}
}

// TestOrdersFromTheInput: a program that takes orders from its input is not covered by a rule where
// the line gives it one.
func TestOrdersFromTheInput(t *testing.T) {
	for _, c := range []struct {
		rules, command string
		want           tools.Effect
	}{
		{"sqlite3 app.db", "sqlite3 app.db <<< '.shell touch made'", tools.Ask},
		{"sqlite3 app.db;cat", "cat orders | sqlite3 app.db", tools.Ask},
		{"sqlite3 app.db;cat", "cat orders | timeout 9 sqlite3 app.db", tools.Ask},
		{"sqlite3 app.db", "sqlite3 app.db < orders", tools.Ask},
		{"sqlite3 app.db", "{ sqlite3 app.db; } <<E\n.shell touch made\nE", tools.Ask},
		{"sqlite3 app.db;cat", "cat orders | (true && sqlite3 app.db)", tools.Ask},
		{"sqlite3 app.db;ls", "bash -c 'sqlite3 app.db' < orders", tools.Ask},
		{"sqlite3 app.db", "exec < orders; sqlite3 app.db", tools.Ask},
		{"exact:psql app", "psql app < orders", tools.Ask},
		{"npm exec", "npm exec < orders", tools.Ask},
		{"sqlite3 app.db .tables", "sqlite3 app.db .tables", tools.Allow},
		{"sqlite3 app.db;head", "sqlite3 app.db 2>&1 | head", tools.Allow},
		{"sqlite3 app.db", "sqlite3 app.db < /dev/null", tools.Allow},
		{"sqlite3 app.db;cat", "cat < orders; sqlite3 app.db", tools.Allow},
		{"cargo run", "cargo run < orders", tools.Allow},
		{"git commit -m x", "git commit -m x < orders", tools.Allow},
	} {
		if d := decideFor(t, c.rules, c.command); d.Effect != c.want {
			t.Errorf("rules %q: %q is %v, want %v: %s", c.rules, c.command, d.Effect, c.want, d.Reason)
		}
	}
}

// TestNoOptionHidesBehindAnother: a table that is wrong about which options take the next
// word must not have an option pass for the value of another.
func TestNoOptionHidesBehindAnother(t *testing.T) {
	for _, c := range []struct {
		rule, command string
		want          tools.Effect
	}{
		{"go build", "go build -buildvcs -toolexec 'sh -c x' .", tools.Ask},
		{"go build", "go build -tags -toolexec=./evil .", tools.Ask},
		{"go vet", "go vet -buildvcs -vettool ./evil .", tools.Ask},
		{"go list", "go list -f -p '-toolexec=./evil' -compiled .", tools.Ask},
		{"git rebase", "git rebase --onto -X --exec=./evil HEAD", tools.Ask},
		{"git rebase", "git rebase -X --exec=./evil HEAD", tools.Ask},
		{"tar", "tar cf -C '-Ised' x", tools.Ask},
		{"tar", "tar -xf a.tar -W use-compress-program=./evil", tools.Ask},
		{"ctest", "ctest -j -S evil.cmake", tools.Ask},
		{"ctest", "ctest --parallel -S evil.cmake", tools.Ask},
		{"fdfind", "fdfind -1 -x sh", tools.Ask},
		{"pip install", "pip install --only-binary --constraint --index-url=x y", tools.Ask},
		{"mkdir", "xargs --eof rm mkdir x", tools.Ask},
		{"mkdir", "xargs --max-lines rm mkdir x", tools.Ask},
		{"mkdir", "xargs --replace rm mkdir x", tools.Ask},
		{"go build", "go build -buildvcs=false -tags x,y .", tools.Allow},
		{"go list", "go list -f '{{.Dir}}' ./...", tools.Allow},
		{"git rebase", "git rebase --onto main HEAD~2", tools.Allow},
		{"git log", "git log -n -1", tools.Allow},
		{"tar", "tar cf a.tar x", tools.Allow},
		{"ctest", "ctest -j 4", tools.Allow},
		{"mkdir", "xargs --max-lines=1 mkdir x", tools.Allow},
	} {
		if d := decideFor(t, c.rule, c.command); d.Effect != c.want {
			t.Errorf("rule %q: %q is %v, want %v: %s", c.rule, c.command, d.Effect, c.want, d.Reason)
		}
	}
}

// TestARuleForATaskCoversNoOther: what a program takes for further tasks is none of the
// task that a rule names.
func TestARuleForATaskCoversNoOther(t *testing.T) {
	for _, c := range []struct{ rule, bad, good string }{
		{"make test", "make test deploy", "make test -j 4 -k"}, {"make test", "make test x$y", "make test test"}, {"make", "make X=1", "make lint test"},
		{"ninja test", "ninja test install", "ninja test -j 4"}, {"mvn test", "mvn test deploy", "mvn test -q"}, {"mvn test", "mvn test org.evil:plugin:1.0:run", "mvn test"},
		{"mvn", "mvn clean deploy", "mvn clean install -q"}, {"mvn", "mvn clean g:p:v:goal", "mvn test"}, {"gradle test", "gradle test publish", "gradle test --tests Some"},
		{"./gradlew test", "./gradlew test publish", "./gradlew test"}, {"gulp test", "gulp test deploy", "gulp test"}, {"grunt test", "grunt test deploy", "grunt test"},
		{"invoke test", "invoke test deploy", "invoke test"}, {"python3 -m invoke test", "python3 -m invoke test deploy", "python3 -m invoke test"},
		{"fab test", "fab test deploy", "fab test"}, {"mage test", "mage test deploy", "mage test"}, {"scons test", "scons test install", "scons test"}, {"sbt test", "sbt test publish", "sbt test"},
		{"waf build", "waf build install", "waf build"}, {"cmake --build out", "cmake --build out --target install", "cmake --build out"}, {"npm-run-all test", "npm-run-all test deploy", "npm-run-all test"},
		{"bazel test //a", "bazel test //a //deploy", "bazel test //a"}, {"bazel run //a", "bazel run //a $t", "bazel run //a"}, {"bazel test", "bazel test x$y", "bazel test //a //b"},
		{"bazel", "bazel test $x", "bazel test //a //b"}, {"rake test", "rake test deploy", "rake test"}, {"just test", "just test deploy", "just test"}, {"xmake test", "xmake test -- -x", "xmake test"},
		{"python3 setup.py build", "python3 setup.py build upload", "python3 setup.py build"}, {"python3 ./setup.py test", "python3 ./setup.py test upload", "python3 ./setup.py test"},
		{"pants test", "pants test publish", "pants test"}, {"python3 tool.py", "python3 tool.py x$y", "python3 tool.py build upload"},
	} {
		if d := decideFor(t, c.rule, c.bad); d.Effect == tools.Allow {
			t.Errorf("rule %q allows %q", c.rule, c.bad)
		}
		if d := decideFor(t, c.rule, c.good); d.Effect != tools.Allow {
			t.Errorf("rule %q: %q is %v: %s", c.rule, c.good, d.Effect, d.Reason)
		}
	}
}

// TestUnknownValuesMayBeOptions: a word that only the shell will know is the value of an
// option where the program surely takes it for that, and may be an option elsewhere.
func TestUnknownValuesMayBeOptions(t *testing.T) {
	for _, c := range []struct {
		rule, command string
		want          tools.Effect
	}{
		{"tar", `tar cf "$x" y`, tools.Ask}, {"tar", `tar -C "$x" -xf y`, tools.Ask}, {"git rebase", `git rebase --onto "$x" main`, tools.Ask}, {"ctest", `ctest -j "$x"`, tools.Ask},
		{"cargo test", `cargo test -p "$(cat x)"`, tools.Ask}, {"go vet", `go vet -- "$x"`, tools.Ask}, {"npm test", `npm test x"$y"`, tools.Ask}, {"cargo test", `cargo test x"$y"`, tools.Ask},
		{"go build", `go build -p "$x" .`, tools.Ask}, {"git commit", `git commit -m -x`, tools.Ask}, {"git commit", `git commit -m $x`, tools.Ask}, {"curl", `curl --write-out '%output{f}' https://x`, tools.Ask},
		{"git commit", `git commit -m "$(git log -1)"`, tools.Allow}, {"git commit", `git commit -m "fix: $x"`, tools.Allow}, {"go test", `go test -run "$x" ./...`, tools.Allow},
		{"tar", `tar -C "out/$x" -xf y`, tools.Allow}, {"cargo test", `cargo test -p "crate-$x"`, tools.Allow}, {"pytest", `pytest "tests/$x"`, tools.Allow}, {"curl", `curl -H "$h" https://x`, tools.Allow},
		{"mkdir", `timeout -s "$x" 5 mkdir y`, tools.Ask}, {"mkdir", `timeout -s KILL 5 mkdir y`, tools.Allow}, {"mkdir", `nice -n "$x" mkdir y`, tools.Ask}, {"mkdir", `nice -n -5 mkdir y`, tools.Allow},
		{"mkdir", `xargs -n "$x" mkdir y`, tools.Ask}, {"mkdir", `xargs -n 1 mkdir y`, tools.Allow},
	} {
		if d := decideFor(t, c.rule+";git log", c.command); d.Effect != c.want {
			t.Errorf("rule %q: %q is %v, want %v: %s", c.rule, c.command, d.Effect, c.want, d.Reason)
		}
	}
}

// TestOptionsTakeTheNextWord: the programs themselves want a word behind each option of
// which the table says that it surely takes one.
func TestOptionsTakeTheNextWord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	wants := regexp.MustCompile("requires a value|needs an argument|requires parameter|expects|requires an argument")
	for entry := range known().lists["takes-next"] {
		name, option, _ := strings.Cut(entry, ":")
		argv := append(strings.Split(name, "/"), option)
		if _, err := exec.LookPath(argv[0]); err != nil && argv[0] == "curl" { // nothing here installs it
			continue
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err == nil || !wants.Match(out) {
			t.Errorf("%v without a value: %v: %s", argv, err, out)
		}
	}
}
