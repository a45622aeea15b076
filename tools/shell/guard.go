package shell

import (
	"slices"
	"strings"
)

// A guardSpec lists what in the words of a program reaches further than a rule
// that names the program can mean: options that run another program, load code,
// or write a file. Such a rule then does not apply, unless its pattern spells
// them.
type guardSpec struct {
	runs      string // letters of short options that run or load code
	runsLong  string // the same as long options; abbreviations count
	writes    string
	writeLong string
	// values are the letters, and valuesLong the names, of options whose value is
	// the next word and harmless data.
	values     string
	valuesLong string
	single     bool // long options begin with one dash
	check      func(a *analysis, cmd simpleCommand, rest []word) string
}

// interpreters run code that their words name. A rule for one of them has to
// name the code.
var interpreters = fieldSet(`
	sh bash dash ash ksh mksh zsh fish rbash csh tcsh
	python python2 python3 pypy pypy3 ipython perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect Rscript R julia
	groovy scala kotlin java jshell ghci runghc ocaml elixir iex erl swipl guile racket sbcl clojure clj pwsh osascript dart
	vi vim nvim view ex ed emacs emacsclient nano gdb lldb sqlite3 psql mysql mariadb mongosh redis-cli bc
	ssh scp sftp mosh rsh docker podman nerdctl kubectl crictl lxc npx bunx uvx pipx dlx
	ansible ansible-playbook vagrant screen tmux at batch crontab nc ncat socat telnet m4 gnuplot octave ltrace msfconsole
	tclsh8.6 python3.9 python3.10 python3.11 python3.12 python3.13 dc jrunscript nasm xdg-open open start make-kpkg
	sg newgrp run-parts installer dpkg rpm snap flatpak eval source`)

// inert programs have no option that runs another program or loads code, so a
// rule for one of them may leave words open that are not known.
var inert = fieldSet(`
	echo printf ls dir vdir cat tac head tail wc nl cut tr paste join comm fold fmt column expand unexpand od hexdump strings rev
	grep egrep fgrep basename dirname realpath readlink which whoami id uname uptime groups users who w logname hostname nproc arch
	pwd stat du df tree test sleep seq yes true false md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum cmp diff
	base32 base64 numfmt factor tsort date cal printenv ps pgrep free jq touch mkdir rmdir rm cp mv ln chmod chown chgrp
	tee shuf truncate unlink mktemp kill sync pathchk stty tput clear xxd uniq lsof lscpu lsblk mount findmnt locale getconf
	gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat zgrep file egrep false`)

func fieldSet(s string) map[string]bool {
	set := map[string]bool{}
	for f := range strings.FieldsSeq(s) {
		set[f] = true
	}
	return set
}

var guards = map[string]guardSpec{
	"git":    {check: (*analysis).guardGit},
	"sed":    {check: (*analysis).guardSed},
	"gsed":   {check: (*analysis).guardSed},
	"awk":    {check: (*analysis).guardAwk},
	"gawk":   {check: (*analysis).guardAwk},
	"mawk":   {check: (*analysis).guardAwk},
	"nawk":   {check: (*analysis).guardAwk},
	"find":   {check: (*analysis).guardFind},
	"make":   {check: (*analysis).guardMake},
	"gmake":  {check: (*analysis).guardMake},
	"tar":    {check: (*analysis).guardTar},
	"bsdtar": {check: (*analysis).guardTar},
	"rg":     {runs: "z", runsLong: "pre hostname-bin search-zip", values: "egtTjmABCEMf", valuesLong: "regexp glob type type-not max-count"},
	"ag":     {runsLong: "pager"},
	"fd":     {runs: "xX", runsLong: "exec exec-batch"},
	"fdfind": {runs: "xX", runsLong: "exec exec-batch"},
	"sort":   {runs: "T", runsLong: "compress-program", writes: "o", writeLong: "output", values: "ktS", valuesLong: "key field-separator buffer-size"},
	"split":  {runsLong: "filter"},
	"pytest": {runs: "pco", runsLong: "rootdir confcutdir override-ini config-file pdbcls pyargs import-mode plugin basetemp",
		writeLong: "junitxml junit-xml resultlog log-file debug cov-config", values: "km", valuesLong: "maxfail tb timeout durations"},
	"npm":       {runs: "C", runsLong: "prefix script-shell node-options userconfig globalconfig call package shell editor", values: "w", check: guardNpm},
	"pnpm":      {runs: "C", runsLong: "dir prefix script-shell shell-mode config", values: "F", check: guardNpm},
	"yarn":      {runsLong: "cwd use-yarnrc script-shell", check: guardNpm},
	"curl":      {runs: "K", runsLong: "config engine", writes: "oOcDTFJ", writeLong: "output output-dir remote-name remote-name-all cookie-jar dump-header upload-file form trace trace-ascii stderr etag-save libcurl", values: "HXdAeubm", valuesLong: "header request data user-agent max-time"},
	"wget":      {runs: "e", runsLong: "execute config use-askpass", writes: "oaiP", writeLong: "output-file append-output post-file body-file"},
	"rsync":     {runs: "e", runsLong: "rsh rsync-path"},
	"less":      {runs: "kK", runsLong: "lesskey-file lesskey-src", writes: "oO", writeLong: "log-file LOG-FILE", check: guardPager},
	"more":      {check: guardPager},
	"most":      {check: guardPager},
	"man":       {runs: "PHCMT", runsLong: "pager html config-file troff-device ditroff gxditview preprocessor"},
	"zip":       {runs: "TU", runsLong: "unzip-command test"},
	"unzip":     {},
	"cpio":      {runsLong: "rsh-command"},
	"go":        {single: true, runsLong: "exec toolexec overlay modfile vettool C compiler gccgoflags ldflags asmflags gcflags", writeLong: "o coverprofile cpuprofile memprofile w", valuesLong: "run count timeout tags bench", check: guardGo},
	"cargo":     {runsLong: "config manifest-path target-dir", runs: "ZC", check: guardCargo},
	"gcc":       {single: true, runsLong: "B fplugin wrapper specs", writeLong: ""},
	"cc":        {single: true, runsLong: "B fplugin wrapper specs"},
	"g++":       {single: true, runsLong: "B fplugin wrapper specs"},
	"clang":     {single: true, runsLong: "B fplugin load Xclang"},
	"eslint":    {runsLong: "rulesdir config plugin resolve-plugins-relative-to parser format", runs: "cf"},
	"prettier":  {runsLong: "plugin plugin-search-dir config"},
	"jest":      {runs: "c", runsLong: "config rootDir globalSetup setupFiles testRunner runner transform reporters preset testEnvironment"},
	"pylint":    {runsLong: "load-plugins init-hook rcfile"},
	"mypy":      {runsLong: "config-file python-executable"},
	"flake8":    {runsLong: "config append-config"},
	"black":     {runsLong: "config"},
	"tsc":       {runs: "p", runsLong: "project build outDir outFile"},
	"mvn":       {runs: "fsg", runsLong: "file settings global-settings"},
	"gradle":    {runs: "IbcpP", runsLong: "init-script build-file settings-file project-dir include-build"},
	"ninja":     {runs: "Cf"},
	"cmake":     {runs: "PCED", runsLong: "build install"},
	"tox":       {runs: "c", runsLong: "conf override", check: nil},
	"pip":       {runsLong: "python config-settings index-url extra-index-url find-links editable requirement", runs: "eirf"},
	"pip3":      {runsLong: "python config-settings index-url extra-index-url find-links editable requirement", runs: "eirf"},
	"terraform": {single: true, runsLong: "chdir plugin-dir"},
	"date":      {writes: "s", writeLong: "set"},
	"hostname":  {writes: "Fb", writeLong: "file boot"},
	"file":      {writes: "C", writeLong: "compile"},
	"tree":      {writes: "o"},
	"shuf":      {writes: "o", writeLong: "output"},
	"uniq":      {check: secondOperandWrites},
	"xxd":       {check: xxdWrites},
	"mount":     {writes: "abcdefghijklmnopqrstuvwxyz"},
}

// codeOptions are names that most programs use alike, for one that this package
// does not know.
var codeOptions = fieldSet(`exec eval pre plugin load-plugins init-hook rsh pager editor to-command use-compress-program
	compress-program script-shell rcfile run-command command-line proxy-command extension load-extension require import
	checkpoint-action preload post-cmd pre-cmd hook on-exit wrapper`)

// guard says why words that a pattern leaves open make a command more than what
// a rule for it can mean.
func (a *analysis) guard(base string, cmd simpleCommand, rest []word) string {
	if interpreters[base] {
		return guardInterpreter(base, cmd, rest)
	}
	g, ok := guards[base]
	if !ok {
		if inert[base] {
			return ""
		}
		return guardUnknown(base, rest)
	}
	if g.check != nil {
		if reason := g.check(a, cmd, rest); reason != "" || g.runs+g.runsLong == "" {
			return reason
		}
	}
	return g.scan(base, rest, g.runs+g.writes, g.runsLong+" "+g.writeLong, !inert[base])
}

// opaque says what in a command could run things that rules do not see.
func (a *analysis) opaque(cmd simpleCommand) string {
	base := a.baseName(cmd.words[0].text)
	rest := cmd.words[1:]
	switch {
	case strings.Contains(base, "/"):
		return "runs a program of the workspace, whose commands the rules do not see"
	case interpreters[base]:
		return guardInterpreter(base, cmd, rest)
	}
	g, ok := guards[base]
	switch {
	case !ok:
		return ""
	case base == "make" || base == "gmake":
		return makeRuns(rest)
	}
	if reason := g.scan(base, rest, g.runs, g.runsLong, false); reason != "" {
		return reason
	}
	if g.check != nil && base != "find" && base != "uniq" && base != "xxd" {
		return g.check(a, cmd, rest)
	}
	return ""
}

// scan looks for the options among the words.
func (g *guardSpec) scan(base string, rest []word, letters, long string, strict bool) string {
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		switch {
		case w.fixed() && w.text == "--":
			return ""
		case !w.mayBeOption():
		case !w.fixed() && !optionNameKnown(w):
			if strict {
				return base + ": a word that could be an option is not known before it runs"
			}
		case g.forbidden(w.prefix(), letters, long):
			return base + " " + w.String() + " reaches further than the rule says"
		case g.takesNext(w.text):
			if i++; i < len(rest) && (rest[i].split || rest[i].glob) && strict {
				return base + ": a value that could become several words"
			}
		}
	}
	return ""
}

// optionNameKnown reports whether the name of an option is known, if not its
// value: --message=….
func optionNameKnown(w word) bool {
	return strings.HasPrefix(w.prefix(), "--") && strings.Contains(w.prefix(), "=") && !w.split && !w.glob
}

func (g *guardSpec) forbidden(text, letters, long string) bool {
	if strings.HasPrefix(text, "--") || g.single {
		name, _, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
		return name != "" && abbreviates(name, long, g.single)
	}
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(letters, text[i]) >= 0 {
			return true
		}
		if strings.IndexByte(g.values, text[i]) >= 0 {
			return false // the rest is its value
		}
	}
	return false
}

// abbreviates reports whether name is one of the options in list, or could be
// short for one.
func abbreviates(name, list string, exact bool) bool {
	for option := range strings.FieldsSeq(list) {
		if option == name || !exact && strings.HasPrefix(option, name) {
			return true
		}
		if exact && len(option) == 1 && strings.HasPrefix(name, option) && option == strings.ToUpper(option) {
			return true // -Bdir
		}
	}
	return false
}

// takesNext reports whether the next word is the value of an option: of a long
// one without "=", or of a cluster whose first letter that takes a value is its
// last. Behind an earlier such letter, as in -tk, the rest is its value.
func (g *guardSpec) takesNext(text string) bool {
	if strings.HasPrefix(text, "--") || g.single {
		return hasField(g.valuesLong, strings.TrimLeft(text, "-"))
	}
	first := strings.IndexAny(text[1:], g.values)
	return g.values != "" && first >= 0 && first == len(text)-2
}

func guardUnknown(base string, rest []word) string {
	for _, w := range rest {
		if !w.fixed() && (w.dynamic || w.split || w.mayBeOption()) && !w.stream {
			return base + ": a word that is not known before it runs"
		}
		name, _, _ := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
		if strings.HasPrefix(w.text, "-") && codeOptions[name] {
			return base + " " + w.text + " reaches further than the rule says"
		}
	}
	return ""
}

// guardInterpreter wants the pattern to name what is run: a file or a module,
// not only options.
func guardInterpreter(base string, cmd simpleCommand, rest []word) string {
	if len(rest) > 0 && !slices.ContainsFunc(rest, func(w word) bool { return !w.fixed() || !hasField("--version -V --help -h version", w.text) }) {
		return ""
	}
	covered := cmd.words[1:max(1, len(cmd.words)-len(rest))]
	names := slices.ContainsFunc(covered, func(w word) bool { return w.fixed() && !strings.HasPrefix(w.text, "-") })
	if !names || hasField("docker podman kubectl nerdctl", base) && len(covered) < 1 {
		return base + " runs code that the rule does not name"
	}
	return guardUnknown(base, rest)
}

func guardPager(_ *analysis, _ simpleCommand, rest []word) string {
	for _, w := range rest {
		if strings.HasPrefix(w.text, "+") || !w.fixed() && w.prefix() == "" {
			return "a pager command may run programs"
		}
	}
	return ""
}

// secondOperandWrites is for filters whose second operand is the output file.
func secondOperandWrites(_ *analysis, _ simpleCommand, rest []word) string {
	operands := 0
	for _, w := range rest {
		if !strings.HasPrefix(w.prefix(), "-") || w.text == "-" {
			operands++
		}
		if w.split || operands > 1 {
			return "a second operand is a file that is written"
		}
	}
	return ""
}

// xxdWrites: what follows the first operand of xxd is its output file, whatever it
// looks like.
func xxdWrites(_ *analysis, _ simpleCommand, rest []word) string {
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		switch {
		case w.fixed() && hasField("-c -cols -g -l -len -n -o -s -seek -R", w.text):
			i++ // its value
		case w.fixed() && strings.HasPrefix(w.text, "-") && w.text != "-":
		case w.split || i+1 < len(rest):
			return "a second operand is a file that is written"
		}
	}
	return ""
}

func guardNpm(_ *analysis, _ simpleCommand, rest []word) string {
	if len(rest) > 0 && (!rest[0].fixed() || hasField("exec x dlx explore config set init create edit", rest[0].text)) {
		return "runs a package that the rule does not name"
	}
	return ""
}

func guardGo(_ *analysis, cmd simpleCommand, rest []word) string {
	if len(cmd.words) == len(rest)+1 && len(rest) > 0 && (!rest[0].fixed() || hasField("run generate tool env", rest[0].text)) {
		return "go " + rest[0].String() + " runs code that the rule does not name"
	}
	return ""
}

func guardCargo(_ *analysis, cmd simpleCommand, rest []word) string {
	if len(rest) > 0 && len(cmd.words) > 1 && strings.HasPrefix(cmd.words[1].text, "+") {
		return "another toolchain"
	}
	return ""
}

// guardMake takes a variable or another target for more than the rule says: both
// choose what is run.
func (a *analysis) guardMake(cmd simpleCommand, rest []word) string {
	for _, w := range rest {
		name, _, _ := strings.Cut(w.prefix(), "=")
		switch {
		case !w.fixed():
			return "make: a word that is not known before it runs"
		case strings.HasPrefix(w.text, "-j") && strings.Trim(w.text[2:], "0123456789") == "":
		case hasField("-k -s -n -B -w -i -q --keep-going --silent --quiet --dry-run --always-make --no-print-directory", name):
		case strings.HasPrefix(w.text, "-"), strings.Contains(w.text, "="):
			return "make " + w.text + " changes what is made, or how"
		case isDigits(w.text):
		case len(cmd.words)-len(rest) > 1:
			return "make: the target " + w.text + " is not in the rule"
		}
	}
	return ""
}

// makeRuns finds the words that make another program of the shell or the file
// that make reads.
func makeRuns(rest []word) string {
	for _, w := range rest {
		if strings.HasPrefix(w.text, "SHELL=") || strings.HasPrefix(w.text, "-f") || strings.HasPrefix(w.text, "--f") ||
			strings.HasPrefix(w.text, "--ma") || strings.HasPrefix(w.text, "--ev") {
			return "make " + w.String() + " names what is run"
		}
	}
	return ""
}

var tarGuard = guardSpec{runs: "IF", values: "fCXTbgKNLVH",
	runsLong: "use-compress-program to-command checkpoint-action info-script new-volume-script rsh-command rmt-command", writeLong: "index-file"}

// guardTar also reads the first word as tar does, as letters without a dash.
func (a *analysis) guardTar(cmd simpleCommand, rest []word) string {
	if len(cmd.words) > 1 && cmd.words[1].fixed() && len(rest) == len(cmd.words)-1 && !strings.HasPrefix(rest[0].text, "-") {
		if strings.ContainsAny(rest[0].text, "IF") {
			return "tar " + rest[0].text + " names a program to run"
		}
	}
	return tarGuard.scan("tar", rest, "IF", tarGuard.runsLong+" "+tarGuard.writeLong, true)
}

var gitData = guardSpec{
	values: "mFSun", valuesLong: "message author date format pretty grep since until after before max-count",
	runsLong: `exec upload-pack receive-pack open-files-in-pager extcmd ext-diff textconv template config config-env exec-path
		output tree-filter index-filter msg-filter env-filter upload-archive remote sequence-editor tool server-option
		separate-git-dir git-dir work-tree filters no-index interactive edit`,
}

// gitRuns are sub-commands that run what their words, or a configuration that
// they may be given, say.
var gitRuns = fieldSet("bisect submodule filter-branch difftool mergetool instaweb daemon shell upload-pack receive-pack send-email hook credential p4 svn cvsserver web--browse help gui citool maintenance config replay filter-repo lfs annex")

// guardGit holds the words of git that a rule leaves open against what makes
// git run programs.
func (a *analysis) guardGit(cmd simpleCommand, rest []word) string {
	if len(rest) == len(cmd.words)-1 { // the pattern is "git" alone: globals are still open
		after, harmless, ok := globalOptions["git"].skip(a, rest)
		if !ok || !harmless {
			return "git: options that change which repository or configuration is used"
		}
		if len(after) > 0 && (!after[0].fixed() || gitRuns[after[0].text] && !gitReads(after)) {
			return "git " + joinWords(after[:1]) + " may run programs that the rule does not name"
		}
		rest = after
	} else if reason := guardGitSub(cmd, rest); reason != "" {
		return reason
	}
	for _, w := range rest {
		if strings.Contains(w.text, "::") && !strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "ext:") {
			return "git: a remote helper runs a program"
		}
	}
	return gitData.scan("git", rest, gitLetters[gitSubcommand(a, cmd.words[1:])], gitData.runsLong, true)
}

// guardGitSub wants a rule for a sub-command that runs things to say what.
func guardGitSub(cmd simpleCommand, rest []word) string {
	words := cmd.words[1:]
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		words = words[1:]
	}
	if len(words) == 0 || !gitRuns[words[0].text] || gitReads(words) || len(rest) == 0 {
		return ""
	}
	if first := rest[0]; !first.fixed() || hasField("run foreach set unset add update edit replace-all", first.text) || words[0].text == "config" {
		return "git " + words[0].text + " " + first.String() + " may run programs that the rule does not name"
	}
	return ""
}

// gitLetters lists the short options by which a sub-command runs something.
var gitLetters = map[string]string{"clone": "cu", "rebase": "xi", "difftool": "xt", "mergetool": "t", "grep": "O", "diff": "O", "log": "O", "show": "O",
	"archive": "o", "format-patch": "o", "fetch": "", "am": "i"}

// gitSubcommand is the first word of a git command line that is no option or
// value of one.
func gitSubcommand(a *analysis, words []word) string {
	rest, _, ok := globalOptions["git"].skip(a, words)
	if !ok || len(rest) == 0 || !rest[0].fixed() {
		return ""
	}
	return rest[0].text
}

// gitReads recognises the forms of such sub-commands that only read.
func gitReads(words []word) bool {
	if len(words) < 2 || !words[1].fixed() {
		return false
	}
	switch words[0].text {
	case "config":
		return hasField("--get --get-all --list -l --get-regexp --get-urlmatch get list", words[1].text)
	case "submodule":
		return words[1].text == "status" || words[1].text == "summary"
	case "bisect":
		return words[1].text == "log"
	}
	return false
}
