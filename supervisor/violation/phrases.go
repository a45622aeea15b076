package violation

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/sandgate/sandgate/protocol"
	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// An errnoPhrase is how an error number reads in the C locale and in the runtimes
// that have their own words for it, in lower case.
type errnoPhrase struct {
	text    string
	write   bool // EROFS: only a write fails so
	missing bool // ENOENT
	eperm   bool
}

// errnoPhrases are in the order in which they are looked for.
func errnoPhrases() []errnoPhrase {
	return []errnoPhrase{
		{text: "permission denied"},
		{text: "read-only file system", write: true},
		{text: "device or resource busy", write: true}, // what is mounted over itself, as protected names are
		{text: "operation not permitted", eperm: true},
		{text: "no such file or directory", missing: true},
		{text: "directory nonexistent", missing: true}, // dash
		{text: "does not exist", missing: true},        // git clone
		{text: "java.nio.file.accessdeniedexception"},  // Java gives the class for the words
		{text: "java.nio.file.nosuchfileexception", missing: true},
	}
}

func findErrno(lower string) (errnoPhrase, int, bool) {
	for _, e := range errnoPhrases() {
		if at := strings.Index(lower, e.text); at >= 0 {
			return e, at, true
		}
	}
	return errnoPhrase{}, 0, false
}

// limitPhrases are the words for a limit of setrlimit(2) that was used up.
func limitPhrases() []struct{ text, limit string } {
	return []struct{ text, limit string }{
		{"too many open files", "open_files"},
		{"file size limit exceeded", "file_size"},
		{"file too large", "file_size"},
		{"cpu time limit exceeded", "cpu"},
		{"cannot allocate memory", "memory"},
		{"memoryerror", "memory"},    // Python
		{"std::bad_alloc", "memory"}, // C++
		{"java.lang.outofmemoryerror", "memory"},
		{"javascript heap out of memory", "memory"},
		{"fatal error: runtime: out of memory", "memory"}, // Go
		{"fork: retry", "pids"},                           // bash
		{"cannot fork", "pids"},                           // dash, git
		{"can't start new thread", "pids"},                // Python
	}
}

// tracerPhrases are the words of debuggers that name no system call.
func tracerPhrases() []string {
	return []string{
		"could not attach to pid",                     // delve
		"could not launch process: fork/exec ",        // delve
		"failed to suspend process",                   // py-spy
		"leaksanitizer has encountered a fatal error", // at the end of what gcc or clang built with -fsanitize=address
	}
}

const hostName = `([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)`

// A grammar is the expressions that lines are read with.
type grammar struct {
	quoted, afterwards, counter, pathWord, writing, executing *regexp.Regexp
	unreachable                                               []*regexp.Regexp
	asks                                                      *regexp.Regexp
}

// lines compiles the grammar when the first line is read: most calls print no
// error, and compiling takes as long as some of them run.
var lines = sync.OnceValue(func() grammar {
	g := grammar{
		// quoted is the text that a program puts between quotes: '/x', "/x", `x', `x`,
		// ‘x’; the apostrophe of "can't" opens none.
		quoted: regexp.MustCompile("(?:^|[^\\w])(?:'([^']*)'|\"([^\"]*)\"|‘([^’]*)’|`([^'`]*)['`])"),
		// afterwards is a path behind the words: Python ": '/x'", Node ", open '/x'",
		// Ruby " @ rb_sysopen - /x (", zsh and Java ": /x".
		afterwards: regexp.MustCompile(`^(?:: |, [a-z]+ | @ \w+ - )(?:'([^']*)'|"([^"]*)"|(/[^:;,'"()]*[^:;,'"()\s]))(?: -> (?:'([^']*)'|"([^"]*)"))?`),
		// counter is a number in a place where a path could stand: of a line, of an
		// error.
		counter:  regexp.MustCompile(`^(?:line )?\d+$|^\[Errno \d+\]$`),
		pathWord: regexp.MustCompile(`\S*/\S*`),
		// writing and executing are words for what a program was doing.
		writing:   regexp.MustCompile(`(?i)\b(?:creat(?:e|ing)|touch(?:ing)?|mkdir|make directory|remov(?:e|ing)|rm|rmdir|unlink|delet(?:e|ing)|rename|mov(?:e|ing)|writ(?:e|ing)|lock|symlink|truncat(?:e|ing)|copyfile|sav(?:e|ing)|append(?:ing)?|changing|setting|chmod|chown|utime)\b`),
		executing: regexp.MustCompile(`(?i)\b(?:exec|execve|spawn|cannot execute|bad interpreter)\b`),
		// asks are the words of pip, of uv and others in Rust, and of pnpm 12.
		asks: regexp.MustCompile(`(?:^Looking in indexes: |request for url \(|Failed to fetch metadata from )https?://(?:[^/@]*@)?` + hostName + `[:/]`),
		// unreachable are the words of resolvers and of connect(2) about a host.
		unreachable: []*regexp.Regexp{
			regexp.MustCompile(`(?i)could(?: not|n't) resolve (?:host(?:name)?|proxy)(?: name)?:? ['"‘]?` + hostName),
			regexp.MustCompile(`(?i)unable to resolve host(?: address)? ['"‘]?` + hostName),
			regexp.MustCompile(`(?i)temporary failure resolving '` + hostName + `'`),
			regexp.MustCompile(`getaddrinfo (?:EAI_AGAIN|ENOTFOUND) ` + hostName),
			regexp.MustCompile(`dial (?:tcp|udp)[46]?: lookup ` + hostName),
			regexp.MustCompile(`dial (?:tcp|udp)[46]? \[?([0-9A-Fa-f.:]+)\]?:\d+: connect: network is unreachable`),
			regexp.MustCompile(`java\.net\.UnknownHostException: ` + hostName),
			regexp.MustCompile(`GET https?://` + hostName + `\S* error \((?:EAI_AGAIN|ENOTFOUND)\)`),                                        // pnpm
			regexp.MustCompile(`: Unknown host ` + hostName + `(?::|$| )`),                                                                  // Maven
			regexp.MustCompile(`> (?:\x1b\[[0-9;]*m)*` + hostName + `: (?:Temporary failure in name resolution|Name or service not known)`), // Gradle
			regexp.MustCompile(`host='` + hostName + `', port=\d+`),                                                                         // Python's urllib3, whose reason follows
			regexp.MustCompile(`^[\w./-]+: (?:line \d+: )?` + hostName + `: (?:Temporary failure in name resolution|Name or service not known)`),
		},
	}
	return g
})

// groups are the parts of a match that matched something.
func groups(match []string) []string {
	var list []string
	for _, g := range match[min(1, len(match)):] {
		if g != "" {
			list = append(list, g)
		}
	}
	return list
}

// paths are the paths that the claim could be about. A word that is not a path does no
// harm: it resolves to a name in the workspace, which is granted.
func (c claim) paths() []string {
	if names := groups(lines().afterwards.FindStringSubmatch(c.after)); len(names) > 0 {
		return names
	}
	var names []string
	for _, m := range lines().quoted.FindAllStringSubmatch(c.before, 4) {
		names = append(names, groups(m)...)
	}
	if name := unquoted(lines().quoted.ReplaceAllString(c.before, " ")); name != "" {
		names = append(names, name)
	}
	return names
}

// unquoted finds the path in "cat: /x: ", "open /x: ", "tar: x: Cannot open: "
// and "java.io.FileNotFoundException: /x (": the last part between colons that
// has one, and else the last that could be a name. The first part, alone before
// others, is the program's own.
func unquoted(before string) string {
	parts := strings.Split(strings.TrimRight(before, ": ("), ": ")
	parts = slices.DeleteFunc(parts, lines().counter.MatchString)
	for i := len(parts) - 1; i >= max(0, len(parts)-3); i-- {
		program := i == 0 && len(parts) > 1 && !strings.Contains(parts[i], " ")
		if name := pathIn(strings.TrimSpace(parts[i])); name != "" && !program {
			return name
		}
	}
	if len(parts) < 2 {
		return ""
	}
	last := strings.TrimPrefix(strings.TrimSpace(parts[len(parts)-1]), "cannot create ") // dash
	if strings.Contains(last, " ") {
		return ""
	}
	return last
}

// pathIn is the path that a few words are, or end with. Spaces are part of an
// absolute one, as far as no words of a program follow.
func pathIn(part string) string {
	if at := strings.Index(" "+part, " /"); at >= 0 {
		return cutAny(part[at:], " - ", " is ", " (", ", error", " file failed", " file for lwp") // cargo's, and two of gdb's
	}
	last := part[strings.LastIndexFunc(part, unicode.IsSpace)+1:]
	if strings.Contains(last, "/") {
		return last
	}
	return ""
}

// cutAny is s up to the first of the separators.
func cutAny(s string, separators ...string) string {
	for _, sep := range separators {
		s, _, _ = strings.Cut(s, sep)
	}
	return s
}

// connecting reports whether the claim is about a Unix socket and not a file:
// "on socket", "dial unix".
func (c claim) connecting() bool {
	for _, word := range words(asciiLower(bare(c.before))) {
		if word == "socket" || word == "unix" || word == "daemon" {
			return true
		}
	}
	return false
}

// rights are the rights that the claim could be about, the likeliest first, given what
// is granted: the one that the words name, or else each that is lacking.
func (c claim) rights(granted sp.Rights) []protocol.Right {
	text := bare(c.before) + " " + bare(c.after)
	switch {
	case c.errno.write, lines().writing.MatchString(text):
		return []protocol.Right{protocol.RightWrite}
	case lines().executing.MatchString(text):
		return []protocol.Right{protocol.RightExecute, protocol.RightRead}
	case c.errno.missing, granted == 0:
		return []protocol.Right{protocol.RightRead}
	}
	return []protocol.Right{protocol.RightRead, protocol.RightWrite, protocol.RightExecute}
}

// bare is text without what is quoted and without paths: the program's own words. Go's
// "fork/exec" is not a path.
func bare(text string) string {
	text = strings.ReplaceAll(text, "fork/exec", "exec")
	return lines().pathWord.ReplaceAllString(lines().quoted.ReplaceAllString(text, " "), " ")
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// unreachableHost is the host that a line says cannot be reached. The machine's
// own names are not the network's.
func unreachableHost(text, lower string) (string, bool) {
	about := func(word string) bool { return strings.Contains(lower, word) }
	if !slices.ContainsFunc([]string{"resolv", "name resolution", "getaddrinfo", "lookup", "unreachable", "unknownhost", "unknown host ", "eai_again", "enotfound", "name or service", "failed to establish"}, about) {
		return "", false // nearly every line, and cheaper than the expressions
	}
	for _, re := range lines().unreachable {
		if m := re.FindStringSubmatch(text); m != nil {
			host := asciiLower(m[1])
			addr, err := netip.ParseAddr(host)
			own := host == "localhost" || host == bwrap.Hostname // the sandbox's own names, which no list reaches
			return host, !own && (err != nil || !addr.IsLoopback())
		}
	}
	return "", false
}
