package shell

import "strings"

// gitShow are the options of git's commands that print history and differences
// (git-log(1), git-diff(1)). Left out: --output, --ext-diff, --textconv,
// --no-index, -O, --show-signature and all that write, run or read elsewhere.
var gitShow = grammar{
	flags: "pusgitwbaRrWzcmqD0", data: "nSGLl", optional: "MCBXU", numbers: true,
	long: `oneline graph all branches tags remotes stat numstat shortstat name-only name-status patch no-patch raw summary cached staged
		abbrev-commit no-abbrev-commit merges no-merges first-parent reverse follow decorate no-decorate no-color word-diff color-words
		minimal patience histogram ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol check quiet exit-code
		no-renames find-renames find-copies full-index binary no-ext-diff no-textconv left-right cherry-pick cherry-mark topo-order
		date-order author-date-order relative-date parents children boundary simplify-by-decoration full-history no-prefix
		dirstat compact-summary pickaxe-all pickaxe-regex merge cc no-notes shortstat no-pager walk-reflogs reflog text
		function-context no-walk count show-pulls no-mailmap mailmap use-mailmap ita-invisible-in-index color source`,
	longData:     "max-count skip since until after before author committer grep date diff-filter diff-algorithm word-diff-regex inter-hunk-context min-parents max-parents exclude glob",
	longOptional: "pretty format color stat decorate abbrev word-diff find-renames find-copies branches tags remotes relative submodule ignore-submodules color-words unified",
}

// gitForms is the table of read-only sub-commands of git.
var gitForms = map[string]grammar{
	"log": gitShow, "diff": gitShow, "show": gitShow, "whatchanged": gitShow, "rev-list": gitShow,
	"diff-tree": gitShow, "diff-index": gitShow, "diff-files": gitShow, "shortlog": {flags: "nsec", long: "numbered summary email all no-merges", longOptional: "group since until"},
	"status":       {flags: "sbvuz", optional: "u", long: "short branch show-stash porcelain long verbose ignored renames no-renames ahead-behind no-ahead-behind null", longOptional: "porcelain untracked-files ignored column ignore-submodules find-renames"},
	"rev-parse":    {long: "abbrev-ref verify quiet symbolic symbolic-full-name show-toplevel show-prefix show-cdup git-dir is-inside-work-tree is-bare-repository is-inside-git-dir absolute-git-dir git-common-dir all branches tags show-superproject-working-tree", flags: "q", longOptional: "short abbrev-ref show-object-format"},
	"ls-files":     {flags: "cdmosiuktvz", data: "x", long: "cached deleted modified others ignored stage unmerged exclude-standard full-name error-unmatch directory deduplicate", longData: "exclude", longOptional: "abbrev"},
	"ls-tree":      {flags: "drtlz", long: "long name-only name-status full-name full-tree object-only", longOptional: "abbrev format"},
	"blame":        {flags: "wcMCelnfsptb", data: "L", long: "porcelain line-porcelain show-email show-name show-number root incremental", longOptional: "date abbrev"},
	"annotate":     {flags: "wl"},
	"describe":     {long: "all tags always long dirty contains exact-match first-parent", longData: "match exclude candidates", longOptional: "dirty abbrev"},
	"cat-file":     {flags: "tsep"},
	"name-rev":     {long: "name-only tags all always", longData: "refs exclude"},
	"merge-base":   {flags: "a", long: "all is-ancestor octopus independent fork-point"},
	"for-each-ref": {long: "omit-empty ignore-case", longData: "count sort points-at format merged no-merged contains no-contains"},
	"show-ref":     {flags: "sqdh", long: "heads tags head dereference verify quiet", longOptional: "hash abbrev"},
	"grep": {flags: "nilLcwvEFPGhHopqIrazW", data: "eABCm", numbers: true,
		long:     "line-number ignore-case files-with-matches name-only files-without-match count word-regexp invert-match extended-regexp fixed-strings perl-regexp basic-regexp heading break only-matching column cached untracked and or not all-match text recursive quiet no-color show-function function-context full-name null",
		longData: "max-depth max-count threads", longOptional: "color"},
	"count-objects": {flags: "vH", long: "verbose human-readable"},
	"check-ignore":  {flags: "vnqz", long: "verbose non-matching quiet no-index"},
	"check-attr":    {flags: "az", long: "all cached"},
	"diff-pairs":    {},
	"cherry":        {flags: "v"},
	"var":           {}, "version": {long: "build-options"},
	"range-diff": gitShow, "show-branch": {flags: "argt", long: "all remotes list sha1-name no-color", longOptional: "color more"},
	"verify-pack": {flags: "vs"},
}

// gitListings are sub-commands that print without operands, or with these
// options and words only, and change something with others.
var gitListings = map[string]struct {
	grammar grammar
	first   string // the words that may come first
	bare    bool   // it only reads when nothing else is given
	needs   string // options, one of which lets operands be
}{
	"branch":       {grammar: grammar{flags: "arvl", long: "all remotes verbose list show-current no-color no-column", longData: "sort points-at format contains no-contains merged no-merged", longOptional: "color column abbrev"}, bare: true, needs: "-l --list"},
	"tag":          {grammar: grammar{flags: "l", optional: "n", long: "list no-column", longData: "sort points-at format contains no-contains merged no-merged", longOptional: "color column"}, bare: true, needs: "-l --list"},
	"remote":       {grammar: grammar{flags: "v", long: "verbose"}, first: "get-url", bare: true},
	"reflog":       {grammar: gitShow, first: "show exists", bare: true},
	"stash":        {grammar: gitShow, first: "list show"},
	"worktree":     {grammar: grammar{flags: "v", long: "porcelain"}, first: "list"},
	"notes":        {grammar: grammar{}, first: "list show"},
	"submodule":    {grammar: grammar{flags: "q", long: "cached recursive"}, first: "status summary"},
	"bisect":       {grammar: grammar{}, first: "log"},
	"config":       {grammar: grammar{flags: "lz", long: "get get-all get-regexp list show-origin show-scope name-only local global system null includes no-includes", longData: "default", longOptional: "type", stop: true}, needs: "--get --get-all --get-regexp --list -l", first: "get list", bare: false},
	"symbolic-ref": {grammar: grammar{flags: "q", long: "short quiet"}},
}

// gitNotReadOnly says why a git command line is not one that only reads in the
// repository it is run in.
func (a *analysis) gitNotReadOnly(rest []word) string {
	rest, harmless, ok := globalOptions["git"].skip(a, rest)
	switch {
	case !ok || !harmless:
		return "git: an option that chooses another repository or configuration"
	case len(rest) == 0:
		return ""
	case !rest[0].fixed():
		return "git: the sub-command is not known before it runs"
	}
	sub, words := rest[0].text, rest[1:]
	if g, ok := gitForms[sub]; ok {
		p, reason := g.parse(words)
		return a.gitOperands(sub, reason, p)
	}
	return a.gitListing(sub, words)
}

func (a *analysis) gitListing(sub string, words []word) string {
	l, ok := gitListings[sub]
	if !ok {
		return "git " + sub + " has no form that is known to be read-only"
	}
	named := len(words) > 0 && words[0].fixed() && hasField(l.first, words[0].text) && l.first != ""
	if named {
		words = words[1:]
	}
	p, reason := l.grammar.parse(words)
	switch {
	case reason != "":
	case named, l.needs != "" && p.has(strings.Fields(l.needs)...):
	case (sub == "symbolic-ref" || sub == "config") && len(p.operands) == 1:
	case l.bare && len(p.operands) == 0:
	default:
		reason = "changes something"
	}
	return a.gitOperands(sub, reason, p)
}

// gitOperands holds the operands against the path rules: one may be a path, or
// REVISION:PATH, and git diff compares any two files outside a repository.
func (a *analysis) gitOperands(sub, reason string, p parsed) string {
	if reason != "" {
		return "git " + sub + ": " + reason
	}
	for _, w := range p.operands {
		if _, path, ok := strings.Cut(w.text, ":"); ok && w.fixed() && path != "" {
			w = fixedWord(path)
		}
		if w.fixed() && w.text == "" {
			continue
		}
		if reason := a.unreadablePath("git "+sub, w); reason != "" {
			return reason
		}
	}
	return ""
}
