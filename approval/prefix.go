package approval

import (
	"fmt"
	"path"
	"strings"
)

// tooWide returns why words may not be remembered as the beginning of a command: if a
// program's other words name another program, or code, the beginning limits nothing.
func tooWide(words []string) error {
	program := path.Base(words[0])
	if why, ok := lookup(anyProgram, program); ok {
		return fmt.Errorf("%q is too wide: %s %s", strings.Join(words, " "), program, why)
	}
	need, why := prefixLength(program, words)
	if len(words) < need {
		return fmt.Errorf("%q is too wide: %s %s", strings.Join(words, " "), program, why)
	}
	for _, w := range words[1:need] {
		if strings.HasPrefix(w, "-") {
			return fmt.Errorf("%q is too wide: the option %s comes before the action of %s", strings.Join(words, " "), w, program)
		}
	}
	return nil
}

// NarrowPrefix is the shortest beginning of a command that may be remembered: the
// program, with as many words as it takes to say what it does. It is nil if they may.
func NarrowPrefix(words []string) []string {
	for n := 1; n <= min(len(words), maxPatternWords); n++ {
		if (Pattern{ArgvPrefix, strings.Join(words[:n], " ")}).Check() == nil {
			return words[:n]
		}
	}
	return nil
}

// StandingPrefix is the part of a command that is worth proposing for a standing rule,
// which no person narrows later: the beginning that NarrowPrefix gives, or, if the
// command destroys, moves or publishes what it names, every word (exact). It is nil for
// what reaches other machines, users or the system as its words say, and for what runs
// the command that follows.
func StandingPrefix(words []string) (prefix []string, exact bool) {
	if len(words) == 0 {
		return nil, false
	}
	program := path.Base(words[0])
	_, wide := lookup(anyProgram, program)
	if wide || farReaching[program] || begins(words, runsNext) {
		return nil, false
	}
	if actsOnNames[program] || begins(words, destructive) {
		return words, true
	}
	return NarrowPrefix(words), false
}

// begins reports whether a command is one of a set of two or three words.
func begins(words []string, set map[string]bool) bool {
	for n := 2; n <= min(len(words), 3); n++ {
		if set[path.Base(words[0])+" "+strings.Join(words[1:n], " ")] {
			return true
		}
	}
	return false
}

// lookup finds a program under its name, or that of which it is a version or a variant:
// perl5.36.0, vim.tiny, bash-static, original-awk.
func lookup(table map[string]string, program string) (why string, ok bool) {
	for _, name := range []string{
		program, strings.TrimPrefix(program, "original-"), program[:max(0, strings.LastIndexAny(program, ".-"))],
	} {
		if why, ok = table[name]; !ok {
			why, ok = table[versionless(name)]
		}
		if ok {
			break
		}
	}
	return why, ok
}

// versionless drops a version from the name of a program: python3.11, gcc-12.
func versionless(program string) string {
	if base := strings.TrimRight(program, "0123456789.-"); base != "" {
		return base
	}
	return program
}

// prefixLength is how many words say what a command does, and what fewer of them
// leave open.
func prefixLength(program string, words []string) (n int, why string) {
	if begins(words, runsNext) {
		return 3, "with " + words[1] + " runs the command that follows"
	}
	if twoLevels[program] || begins(words, manyForms) {
		return 3, "does very different things: name both sub-commands"
	}
	if why, ok := lookup(interpreters, program); ok {
		return 2, why
	}
	if why, ok := needSubcommand[program]; ok {
		return 2, why
	}
	if actsOnNames[program] {
		return 2, "acts on what its other words name: name the target"
	}
	return 1, ""
}

const (
	runsWords  = "runs the program that its other words name"
	runsScript = "runs the script in its other words"
	asOther    = "gives another program more rights"
	elsewhere  = "runs commands on another machine, or in another container"
	runsCode   = "runs the code that it is given"
	manyVerbs  = "does very different things: name the sub-command"
	anyTarget  = "runs commands from a file of the workspace: name the target"
)

// anyProgram lists what is never remembered, however many words are given,
// because the words that matter come after options.
var anyProgram = map[string]string{
	"env": runsWords, "xargs": runsWords, "find": runsWords, "fd": runsWords, "parallel": runsWords, "exec": runsWords,
	"command": runsWords, "builtin": runsWords, "nohup": runsWords, "nice": runsWords, "ionice": runsWords, "timeout": runsWords,
	"time": runsWords, "stdbuf": runsWords, "setsid": runsWords, "setarch": runsWords, "chrt": runsWords, "taskset": runsWords,
	"fdfind": runsWords, "watch": runsWords, "flock": runsWords, "script": runsWords, "strace": runsWords, "ltrace": runsWords, "gdb": runsWords,
	"perf": runsWords, "valgrind": runsWords, "busybox": runsWords, "toybox": runsWords, "entr": runsWords, "rlwrap": runsWords,
	"unshare": runsWords, "nsenter": runsWords, "bwrap": runsWords, "firejail": runsWords, "faketime": runsWords, "npx": runsWords,
	"bunx": runsWords, "pnpx": runsWords, "uvx": runsWords, "pipx": runsWords, "ld.so": runsWords, "start-stop-daemon": runsWords,
	"sudo": asOther, "doas": asOther, "su": asOther, "pkexec": asOther, "runuser": asOther, "chroot": asOther, "setpriv": asOther,
	"systemd-run": asOther, "at": runsScript, "batch": runsScript, "crontab": runsScript,
	"eval": runsScript, "source": runsScript, ".": runsScript, "trap": runsScript,
	"sh": runsScript, "bash": runsScript, "dash": runsScript, "zsh": runsScript, "ksh": runsScript, "mksh": runsScript, "ash": runsScript,
	"fish": runsScript, "csh": runsScript, "tcsh": runsScript, "rbash": runsScript, "pwsh": runsScript, "nu": runsScript,
	"ssh": elsewhere, "docker": elsewhere, "podman": elsewhere, "nerdctl": elsewhere, "kubectl": elsewhere, "lxc": elsewhere,
	"awk": runsCode, "gawk": runsCode, "mawk": runsCode, "nawk": runsCode, "sed": runsCode, "gsed": runsCode, "vim": runsCode, "vi": runsCode,
	"nvim": runsCode, "emacs": runsCode, "ed": runsCode, "expect": runsCode, "osascript": runsCode, "sqlite": runsCode, "psql": runsCode,
	"caffeinate": runsWords, "catchsegv": runsWords, "choom": runsWords, "chpst": runsWords, "chronic": runsWords, "cpulimit": runsWords,
	"dbus-run-session": runsWords, "dumb-init": runsWords, "tini": runsWords, "eatmydata": runsWords, "envdir": runsWords,
	"fakeroot": runsWords, "hyperfine": runsWords, "i386": runsWords, "linux32": runsWords, "linux64": runsWords, "x86_64": runsWords,
	"uname26": runsWords, "ifne": runsWords, "numactl": runsWords, "prlimit": runsWords, "proxychains": runsWords, "tsocks": runsWords,
	"torsocks": runsWords, "run-parts": runsWords, "ssh-agent": runsWords, "systemd-inhibit": runsWords, "unbuffer": runsWords,
	"xvfb-run": runsWords, "xdg-open": runsWords, "open": runsWords, "start": runsWords, "dlx": runsWords, "flatpak": runsWords,
	"snap": runsWords,
	"gosu": asOther, "su-exec": asOther, "setuidgid": asOther, "newgrp": asOther, "sg": asOther,
	"rsh": elsewhere, "mosh": elsewhere, "crictl": elsewhere, "vagrant": elsewhere, "ansible": elsewhere, "ansible-playbook": elsewhere,
	"screen": elsewhere, "tmux": elsewhere,
	"ex": runsCode, "view": runsCode, "nano": runsCode, "emacsclient": runsCode, "m4": runsCode, "gnuplot": runsCode, "bc": runsCode,
	"dc": runsCode, "lldb": runsCode, "mysql": runsCode, "mariadb": runsCode, "mongosh": runsCode, "redis-cli": runsCode,
	"vimdiff": runsCode, "rvim": runsCode, "rview": runsCode, "gvim": runsCode, "micro": runsCode, "joe": runsCode, "mg": runsCode,
	"mongo": runsCode, "duckdb": runsCode, "nodemon": runsCode, "nix-shell": runsScript, "posh": runsScript, "yash": runsScript,
	"msfconsole": runsCode, "installer": runsCode, "make-kpkg": runsCode,
}

// interpreters run the program of their first operand: without it, any.
var interpreters = map[string]string{
	"python": runsCode, "pypy": runsCode, "ipython": runsCode, "perl": runsCode, "ruby": runsCode, "node": runsCode, "nodejs": runsCode,
	"deno": runsCode, "bun": runsCode, "php": runsCode, "lua": runsCode, "luajit": runsCode, "Rscript": runsCode, "R": runsCode,
	"julia": runsCode, "java": runsCode, "tclsh": runsCode, "guile": runsCode, "ghci": runsCode, "runghc": runsCode, "elixir": runsCode,
	"erl": runsCode, "irb": runsCode, "ts-node": runsCode, "tsx": runsCode, "coffee": runsCode,
	"clj": runsCode, "clojure": runsCode, "dart": runsCode, "groovy": runsCode, "iex": runsCode, "jrunscript": runsCode,
	"jshell": runsCode, "kotlin": runsCode, "nasm": runsCode, "ocaml": runsCode, "octave": runsCode, "racket": runsCode,
	"sbcl": runsCode, "scala": runsCode, "swipl": runsCode, "wish": runsCode,
}

// needSubcommand lists programs whose first word says what they do.
var needSubcommand = map[string]string{
	"git": manyVerbs, "hg": manyVerbs, "svn": manyVerbs, "jj": manyVerbs,
	"go": manyVerbs, "cargo": manyVerbs, "rustup": manyVerbs, "npm": manyVerbs, "yarn": manyVerbs, "pnpm": manyVerbs, "pip": manyVerbs,
	"pip3": manyVerbs, "uv": manyVerbs, "poetry": manyVerbs, "pipenv": manyVerbs, "conda": manyVerbs, "mamba": manyVerbs, "bundle": manyVerbs, "gem": manyVerbs,
	"dotnet": manyVerbs, "composer": manyVerbs, "apt": manyVerbs, "apt-get": manyVerbs, "dnf": manyVerbs, "apk": manyVerbs, "brew": manyVerbs,
	"nix": manyVerbs, "systemctl": manyVerbs, "aws": manyVerbs, "gcloud": manyVerbs, "az": manyVerbs, "terraform": manyVerbs, "helm": manyVerbs,
	"bazel": manyVerbs, "meson": manyVerbs, "cmake": manyVerbs, "buf": manyVerbs, "ruff": manyVerbs, "openssl": manyVerbs, "dpkg": manyVerbs, "rpm": manyVerbs, "ip": manyVerbs, "rails": manyVerbs, "mix": manyVerbs,
	"make": anyTarget, "gmake": anyTarget, "just": anyTarget, "task": anyTarget, "rake": anyTarget, "ant": anyTarget, "mvn": anyTarget,
	"gradle": anyTarget, "gradlew": anyTarget, "tox": anyTarget, "nox": anyTarget, "invoke": anyTarget,
}

// actsOnNames lists programs that destroy, move or send what their arguments name.
var actsOnNames = map[string]bool{
	"rm": true, "rmdir": true, "unlink": true, "shred": true, "mv": true, "cp": true, "ln": true, "dd": true, "truncate": true,
	"touch": true, "mkdir": true, "chmod": true, "chown": true, "chgrp": true, "setfacl": true, "kill": true, "killall": true, "pkill": true, "tee": true,
	"install": true, "rsync": true, "scp": true, "sftp": true, "curl": true, "wget": true, "nc": true, "ncat": true, "socat": true,
	"mount": true, "umount": true, "mkfs": true, "patch": true, "tar": true, "unzip": true, "ftp": true, "telnet": true,
}

// twoLevels lists programs whose second word says only what kind of thing they act on.
var twoLevels = map[string]bool{"gh": true, "glab": true}

// manyForms lists sub-commands that have sub-commands.
var manyForms = set("git remote", "git stash", "git worktree", "aws s3", "pip config")

// runsNext lists sub-commands that are themselves a way to run anything: one more word
// says what.
var runsNext = set("go run", "go tool", "go generate", "cargo run", "npm run", "npm run-script", "npm exec", "npm x", "yarn run", "yarn exec",
	"yarn dlx", "yarn node", "pnpm run", "pnpm exec", "pnpm dlx", "bun run", "bun x", "deno run", "uv run", "uv tool",
	"poetry run", "pipenv run", "bundle exec", "dotnet run", "nix run", "nix shell", "nix develop", "conda run",
	"mix run", "rails runner", "git submodule", "git config", "git bisect", "git rebase", "git filter-branch",
	"gh api", "gh alias", "gh extension", "hg debugshell")

// destructive lists sub-commands that destroy, move or publish what their arguments name.
var destructive = set("git push", "git reset", "git clean", "git checkout", "git restore", "git rm", "git branch", "git tag", "git stash", "git merge",
	"git remote", "git switch", "npm publish", "cargo publish", "gh pr merge", "gh repo delete", "terraform apply", "terraform destroy",
	"helm install", "helm upgrade", "helm uninstall", "apt install", "apt-get install", "apt remove", "apt-get remove", "npm install",
	"pip install", "pip3 install", "gem install", "brew install")

// farReaching lists programs that a person may allow by some of their words, but that
// are never offered as a permanent rule: they reach the network, other users or the
// system, or set up what other programs then run.
var farReaching = set("tar", "rsync", "curl", "wget", "http", "scp", "sftp", "ftp", "telnet", "nc", "ncat", "socat", "ssh-keygen", "gpg", "openssl",
	"systemctl", "mount", "umount", "dd", "mkfs", "poetry", "pipenv", "bundle", "direnv", "asdf", "mise", "nix", "nix-shell", "conda",
	"mamba", "tox", "nox", "hatch")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}
