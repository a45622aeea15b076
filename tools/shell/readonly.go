package shell

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// operandKind is what the operands of a program are.
type operandKind int8

const (
	noOperands    operandKind = iota
	readFiles                 // files that it reads
	anyData                   // text
	dataThenFiles             // the first is text, unless an option gives it
	oneFile                   // one file that it reads; a second would be written
)

// A readForm is the part of a program's options that only read and print.
// Everything that it does not list is not read-only.
type readForm struct {
	grammar
	operands operandKind
	// pairs and pathPairs list the options that take a name and a value, the
	// latter of which is a file to read.
	pairs, pathPairs string
	// gives lists the options that stand for the first operand of dataThenFiles.
	gives string
	check func(a *analysis, p parsed) string
}

// Letters that several programs share with the same meaning.
const hashLetters = "bctwz"

var hashForm = readForm{grammar: grammar{flags: hashLetters, long: "binary check tag text zero ignore-missing quiet status strict warn"}, operands: readFiles}

// readForms is the table of read-only forms. An option is listed if the manual
// of GNU coreutils, util-linux or the program itself says that it neither
// writes, nor runs a program, nor reads a file that the table does not check.
var readForms = map[string]readForm{
	"ls": {grammar: grammar{flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", data: "ITw",
		long:         "all almost-all author escape ignore-backups directory classify file-type full-time group-directories-first no-group human-readable si dereference inode numeric-uid-gid literal size reverse recursive zero dired",
		longOptional: "color classify hyperlink", longData: "ignore hide sort time time-style format indicator-style block-size quoting-style tabsize width"}, operands: readFiles},
	"cat":  {grammar: grammar{flags: "AbeEnstTuv", long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"}, operands: readFiles},
	"tac":  {grammar: grammar{flags: "br", data: "s", longData: "separator"}, operands: readFiles},
	"nl":   {grammar: grammar{flags: "p", data: "bdfhilnsvw"}, operands: readFiles},
	"head": {grammar: grammar{flags: "qvz", data: "nc", long: "quiet silent verbose zero-terminated", longData: "lines bytes", numbers: true}, operands: readFiles},
	"tail": {grammar: grammar{flags: "qvzfFr", data: "ncs", long: "quiet silent verbose zero-terminated follow retry", longData: "lines bytes pid sleep-interval", longOptional: "follow", numbers: true}, operands: readFiles},
	"wc":   {grammar: grammar{flags: "clLmw", long: "bytes chars lines words max-line-length", longData: "total"}, operands: readFiles},
	"grep": grepForm, "egrep": grepForm, "fgrep": grepForm,
	"rg": {grammar: grammar{flags: "abcFHhIiLlnNopPqsSuUvwx0.", data: "eAgBCEmMrtTjd", paths: "f", numbers: false,
		long: `after-context count count-matches files files-with-matches files-without-match fixed-strings follow heading no-heading hidden
			ignore-case smart-case case-sensitive invert-match json line-number no-line-number line-regexp word-regexp multiline multiline-dotall
			no-config no-filename with-filename no-ignore no-ignore-vcs no-ignore-parent no-messages null only-matching passthru pcre2 pretty
			quiet stats text trim type-list unrestricted vimgrep column no-column byte-offset crlf binary debug version`,
		longData:  "regexp after-context before-context context glob iglob color colors encoding max-count max-columns max-depth max-filesize replace sort sortr threads type type-not engine path-separator",
		longPaths: "file ignore-file"}, operands: dataThenFiles, gives: "-e --regexp -f --file --files --type-list"},
	"sort": {grammar: grammar{flags: "bcCdfghiMmnRrsuVz", data: "ktS",
		long:     "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort reverse stable unique version-sort zero-terminated merge debug",
		longData: "key field-separator buffer-size parallel batch-size sort", longOptional: "check"}, operands: readFiles},
	"uniq":     {grammar: grammar{flags: "cdDiuz", data: "fsw", long: "count repeated ignore-case unique zero-terminated", longData: "skip-fields skip-chars check-chars", longOptional: "all-repeated group"}, operands: oneFile},
	"cut":      {grammar: grammar{flags: "nsz", data: "bcdf", long: "only-delimited complement zero-terminated", longData: "bytes characters fields delimiter output-delimiter"}, operands: readFiles},
	"tr":       {grammar: grammar{flags: "cCdst", long: "complement delete squeeze-repeats truncate-set1"}, operands: anyData},
	"paste":    {grammar: grammar{flags: "sz", data: "d", long: "serial zero-terminated", longData: "delimiters"}, operands: readFiles},
	"join":     {grammar: grammar{flags: "iz", data: "aejotv12", long: "ignore-case header check-order nocheck-order zero-terminated"}, operands: readFiles},
	"comm":     {grammar: grammar{flags: "123z", long: "check-order nocheck-order total zero-terminated", longData: "output-delimiter"}, operands: readFiles},
	"fold":     {grammar: grammar{flags: "bs", data: "w", long: "bytes spaces", longData: "width"}, operands: readFiles},
	"fmt":      {grammar: grammar{flags: "cstu", data: "wgp", numbers: true}, operands: readFiles},
	"column":   {grammar: grammar{flags: "txn", data: "sco", long: "table", longData: "separator output-separator"}, operands: readFiles},
	"expand":   {grammar: grammar{flags: "i", data: "t"}, operands: readFiles},
	"unexpand": {grammar: grammar{flags: "a", data: "t"}, operands: readFiles},
	"rev":      {operands: readFiles},
	"od":       {grammar: grammar{flags: "abcdfhiloxv", data: "AjNtS", optional: "w"}, operands: readFiles},
	"hexdump":  {grammar: grammar{flags: "bCcdovx", data: "ens"}, operands: readFiles},
	"xxd":      {grammar: grammar{flags: "abeEipu", data: "cglos", alone: true, stop: true}, operands: oneFile},
	"strings":  {grammar: grammar{flags: "afw", data: "nte", numbers: true}, operands: readFiles, check: noResponseFile},
	"diff": {grammar: grammar{flags: "abBcdeEiNnpqrstTuwyZ", data: "UCWxIFD",
		long:     "brief report-identical-files side-by-side recursive new-file unified context text ignore-case ignore-space-change ignore-all-space ignore-blank-lines ignore-trailing-space strip-trailing-cr minimal suppress-common-lines no-dereference left-column",
		longData: "exclude ignore-matching-lines label width horizon-lines", longOptional: "color unified context"}, operands: readFiles},
	"cmp":  {grammar: grammar{flags: "bls", data: "in", long: "print-bytes verbose quiet silent"}, operands: readFiles},
	"stat": {grammar: grammar{flags: "Lft", data: "c", long: "dereference file-system terse", longData: "format printf"}, operands: readFiles},
	"file": {grammar: grammar{flags: "bhiLkNnprsv0E", data: "eFP", long: "brief mime mime-type mime-encoding dereference no-dereference keep-going raw version", longData: "separator"}, operands: readFiles},
	"tree": {grammar: grammar{flags: "adfilxpsughDFqNvctUrACSnJX", data: "LPI", long: "dirsfirst noreport prune du si inodes device gitignore", longData: "filelimit charset sort"}, operands: readFiles},
	"du":   {grammar: grammar{flags: "0abcDhHklLmPsSx", data: "dBt", long: "all apparent-size bytes total human-readable summarize one-file-system dereference separate-dirs", longData: "max-depth block-size threshold exclude", longOptional: "time"}, operands: readFiles},
	"df":   {grammar: grammar{flags: "ahHiklmPT", data: "Btx", long: "all human-readable si inodes local portability print-type total", longData: "type exclude-type block-size", longOptional: "output"}, operands: readFiles},
	"jq": {grammar: grammar{flags: "nrcsaejRSMC", single: false, long: "null-input raw-output compact-output slurp ascii-output exit-status join-output raw-input sort-keys monochrome-output color-output tab stream seq unbuffered",
		longData: "indent"}, pairs: "--arg --argjson", pathPairs: "--slurpfile --rawfile", operands: dataThenFiles, check: pureJq},
	"date":     {grammar: grammar{flags: "uR", data: "d", paths: "r", long: "utc universal rfc-email", longData: "date rfc-3339", longPaths: "reference", longOptional: "iso-8601", optional: "I"}, operands: anyData, check: dateOnlyPrints},
	"echo":     {operands: anyData, check: nil},
	"printf":   {operands: anyData},
	"pwd":      {grammar: grammar{flags: "LP"}},
	"which":    {grammar: grammar{flags: "as"}, operands: anyData},
	"type":     {grammar: grammar{flags: "afptP"}, operands: anyData},
	"basename": {grammar: grammar{flags: "az", data: "s"}, operands: anyData},
	"dirname":  {grammar: grammar{flags: "z"}, operands: anyData},
	"realpath": {grammar: grammar{flags: "eLmPqsz", long: "canonicalize-existing canonicalize-missing no-symlinks quiet", longData: "relative-to relative-base"}, operands: readFiles},
	"readlink": {grammar: grammar{flags: "efmnqsvz", long: "canonicalize canonicalize-existing canonicalize-missing no-newline"}, operands: readFiles},
	"whoami":   {}, "hostname": {grammar: grammar{flags: "fsiIdA"}}, "nproc": {grammar: grammar{long: "all"}}, "arch": {}, "uptime": {grammar: grammar{flags: "ps"}},
	"id":       {grammar: grammar{flags: "Ggnruz"}, operands: anyData},
	"groups":   {operands: anyData},
	"uname":    {grammar: grammar{flags: "asnrvmpio", long: "all"}},
	"free":     {grammar: grammar{flags: "bkmghtwl", data: "sc"}},
	"ps":       {grammar: grammar{flags: "AaedefFjlmTuxwcHLMyZh", data: "oOpCGUkq", longData: "sort pid ppid user format", long: "forest no-headers headers"}, operands: anyData},
	"pgrep":    {grammar: grammar{flags: "aflnovxci", data: "gGPstuU"}, operands: anyData},
	"seq":      {grammar: grammar{flags: "w", data: "fs", numbers: true}, operands: anyData},
	"sleep":    {operands: anyData},
	"test":     {grammar: grammar{}, operands: anyData},
	"true":     {operands: anyData},
	"false":    {operands: anyData},
	"printenv": {grammar: grammar{flags: "0"}, operands: anyData},
	"locale":   {grammar: grammar{flags: "ack"}, operands: anyData},
	"cal":      {grammar: grammar{flags: "13jmsy"}, operands: anyData},
	"factor":   {operands: anyData},
	"numfmt":   {grammar: grammar{longData: "from to suffix format padding field", longOptional: "grouping header"}, operands: anyData},
	"md5sum":   hashForm, "sha1sum": hashForm, "sha224sum": hashForm, "sha256sum": hashForm, "sha384sum": hashForm, "sha512sum": hashForm, "b2sum": hashForm,
	"cksum":   {operands: readFiles},
	"sum":     {grammar: grammar{flags: "rs"}, operands: readFiles},
	"base64":  {grammar: grammar{flags: "di", data: "w", long: "decode ignore-garbage", longData: "wrap"}, operands: readFiles},
	"shuf":    {grammar: grammar{flags: "erz", data: "in", long: "echo repeat zero-terminated", longData: "input-range head-count"}, operands: readFiles},
	"tsort":   {operands: readFiles},
	"history": {operands: anyData, check: historyOnlyPrints},
	"lsblk":   {grammar: grammar{flags: "abdfilmnprSt", data: "o"}},
	"lscpu":   {grammar: grammar{flags: "aebcx"}},
}

var grepForm = readForm{grammar: grammar{flags: "abcEFGhHiIlLnoPqrRsTUvVwxyzZ", data: "eABCmdD", paths: "f", numbers: true,
	long: `extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp line-regexp count
		files-without-match files-with-matches only-matching quiet silent no-messages byte-offset with-filename no-filename line-number
		initial-tab null text recursive dereference-recursive line-buffered null-data version`,
	longData:     "regexp max-count after-context before-context context include exclude exclude-dir label binary-files devices directories",
	longOptional: "color colour", longPaths: "file exclude-from"}, operands: dataThenFiles, gives: "-e --regexp -f --file"}

// noResponseFile is for programs that read further words from a file a word,
// be it an operand or an option's value, is @FILE (GNU binutils).
func noResponseFile(_ *analysis, p parsed) string {
	words := p.operands
	for _, o := range p.options {
		words = append(words[:len(words):len(words)], o.value)
	}
	for _, w := range words {
		if strings.HasPrefix(w.prefix(), "@") || !w.fixed() && w.prefix() == "" {
			return "@FILE stands for the words in that file"
		}
	}
	return ""
}

// versionOnly recognises what asks a program for its version or its help.
func versionOnly(base string, rest []word) bool {
	if len(rest) != 1 || !rest[0].fixed() {
		return false
	}
	switch rest[0].text {
	case "--version", "--help":
		return true
	case "-V":
		return hasField("python python3 perl", base)
	case "-v":
		return hasField("node npm yarn pnpm php ruby perl bun", base)
	case "version":
		return hasField("go docker kubectl npm cargo terraform", base)
	}
	return false
}

// notReadOnly says why a command is not of a form that only reads, inside the
// path rules.
func (a *analysis) notReadOnly(cmd simpleCommand) string {
	base, rest := a.baseName(cmd.words[0].text), cmd.words[1:]
	switch {
	case versionOnly(base, rest):
		return ""
	case base == "git":
		return a.gitNotReadOnly(rest)
	case base == "find":
		return a.findNotReadOnly(rest)
	case base == "sed" || base == "gsed":
		p, reason := sedEffect(rest)
		return a.orPaths(reason, base, p.operands)
	case strings.HasSuffix(base, "awk"):
		p, reason := awkEffect(rest)
		return a.orPaths(reason, base, p.operands)
	}
	form, ok := readForms[base]
	if !ok {
		return base + " has no form that is known to be read-only"
	}
	return a.holdAgainst(&form, base, rest)
}

func (a *analysis) holdAgainst(form *readForm, base string, rest []word) string {
	if base == "echo" {
		return "" // it prints whatever it is given
	}
	g := form.grammar
	_, guarded := guards[base]
	g.lenient = inert[base] && !guarded
	rest, reason := a.takePairs(form, base, rest)
	if reason != "" {
		return reason
	}
	p, reason := g.parse(rest)
	if reason != "" {
		return base + ": " + reason
	}
	for _, o := range p.options {
		if o.path {
			if reason := a.unreadablePath(base, o.value); reason != "" {
				return reason
			}
		}
	}
	if form.check != nil {
		if reason := form.check(a, p); reason != "" {
			return base + ": " + reason
		}
	}
	return a.holdOperands(form, base, p)
}

// takePairs removes the options that take two words.
func (a *analysis) takePairs(form *readForm, base string, words []word) (rest []word, reason string) {
	if form.pairs == "" {
		return words, ""
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		isPath := w.fixed() && hasField(form.pathPairs, w.text)
		if !isPath && !(w.fixed() && hasField(form.pairs, w.text)) {
			rest = append(rest, w)
			continue
		}
		if i+2 >= len(words) || words[i+1].split || words[i+1].glob || words[i+2].split || words[i+2].glob {
			return nil, base + " " + w.text + ": its two values are not known before it runs"
		}
		if isPath {
			reason = a.unreadablePath(base, words[i+2])
		}
		if reason != "" {
			return nil, reason
		}
		i += 2
	}
	return rest, ""
}

func (a *analysis) holdOperands(form *readForm, base string, p parsed) string {
	files := p.operands
	switch form.operands {
	case noOperands:
		if len(files) > 0 {
			return base + " with operands may change something"
		}
	case anyData:
		files = nil
	case oneFile:
		if len(files) > 1 || len(files) == 1 && files[0].glob {
			return base + " writes its second operand"
		}
	case dataThenFiles:
		if !p.has(strings.Fields(form.gives)...) && len(files) > 0 {
			if files[0].split || files[0].glob {
				return base + ": a word that could become several"
			}
			files = files[1:]
		}
	}
	return a.orPaths("", base, files)
}

// orPaths gives reason, or why one of the files may not be read.
func (a *analysis) orPaths(reason, base string, files []word) string {
	if reason != "" {
		return reason
	}
	for _, f := range files {
		if reason := a.unreadablePath(base, f); reason != "" {
			return reason
		}
	}
	return ""
}

func (a *analysis) unreadablePath(base string, w word) string {
	if w.stream || w.fixed() && (w.text == "-" || harmlessFiles[w.text]) {
		return ""
	}
	effect, reason, _ := a.checkPath(w, false)
	if effect == tools.Allow {
		return ""
	}
	return base + " " + w.String() + ": " + reason
}

func (a *analysis) findNotReadOnly(rest []word) string {
	f := parseFind(rest)
	return a.orPaths(a.orPaths(f.reason, "find", f.starts), "find", f.files)
}

func dateOnlyPrints(_ *analysis, p parsed) string {
	for _, w := range p.operands {
		if !strings.HasPrefix(w.prefix(), "+") {
			return "an operand that does not begin with + sets the clock"
		}
	}
	return ""
}

func historyOnlyPrints(_ *analysis, p parsed) string {
	for _, w := range p.operands {
		if !w.fixed() || !isDigits(w.text) {
			return "only a number of lines is read-only"
		}
	}
	return ""
}

// pureJq refuses programs that load modules.
func pureJq(_ *analysis, p parsed) string {
	if len(p.operands) == 0 || !p.operands[0].fixed() {
		return "the program is not known before it runs"
	}
	names := strings.FieldsFunc(p.operands[0].text, func(r rune) bool { return r != '_' && (r|0x20 < 'a' || r|0x20 > 'z') })
	if slices.ContainsFunc(names, func(n string) bool { return jqForbidden[n] }) {
		return "the program loads other code, or reads the environment"
	}
	return ""
}

var jqForbidden = fieldSet("import include env ENV input_filename modulemeta get_search_list")
