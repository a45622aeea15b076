// The shape of the repository, as tests: which package may import which and why,
// one package comment each, documents that speak of things that exist.
package sandgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sandgate/sandgate"

// An arrow forbids imports. Patterns name our packages by directory ("tools/..."
// is tools and everything below); others are import paths of the standard
// library, and the two words in quotes below.
type arrow struct {
	from   string
	to     []string
	except []string
	why    string
}

const (
	ours   = "ours"        // every package of this module
	others = "third-party" // every package of another module
)

// Arrows point downwards only: tools propose, approval decides, confine
// enforces, and none can do another's work.
var forbidden = []arrow{
	{"approval/...", []string{ours, others}, []string{"approval/..."},
		"the decision point knows nothing of sandgate, so that any agent framework can use it alone"},
	{"approval", []string{"net", "os", "os/exec", "syscall", "unsafe"}, nil,
		"deciding is a function of the request, the rules, and answers that are handed in; it touches nothing"},

	{"protocol", []string{ours, others}, []string{"approval", "github.com/go-json-experiment/json", "github.com/go-json-experiment/json/jsontext"},
		"clients import it: what crosses the wire must not drag the supervisor along"},
	{"protocol", []string{"os", "os/exec", "net", "syscall", "unsafe"}, nil,
		"it describes messages; opening sockets is the caller's work"},

	{"sandboxprofile", []string{ours, others}, nil,
		"the algebra of rights has no dependency that could change its meaning, and the in-sandbox init carries it"},
	{"sandboxprofile/...", []string{ours}, []string{"sandboxprofile/..."},
		"a compiler turns a profile into another language and knows nothing else"},
	{"sandboxprofile/...", []string{others}, []string{"github.com/seccomp/libseccomp-golang", "golang.org/x/sys/unix"},
		"of the compilers only seccomp needs help: the kernel's numbers of system calls, the optimiser, and a memory file to take the program from it"},
	{"sandboxprofile/...", []string{"os/exec", "net"}, nil,
		"computed purely, applied thinly: the same on every operating system, and testable as values"},
	{"sandboxprofile", []string{"os", "syscall"}, nil, "what a host is like comes in as values (Facts)"},
	{"sandboxprofile/bwrap", []string{"os", "syscall"}, nil, "what a host is like comes in as values (Facts)"},
	{"sandboxprofile/landlock", []string{"os", "syscall"}, nil, "what a host is like comes in as values (Facts)"},
	{"sandboxprofile/sbpl", []string{"os", "syscall"}, nil, "what a host is like comes in as values (Facts), and what one sandbox has as others (Vars)"},

	{"tools/...", []string{ours}, []string{"tools/...", "approval", "sandboxprofile"},
		"a tool proposes; it must not reach what decides, enforces or serves"},
	{"tools/...", []string{"os/exec", "net", "net/http"}, nil,
		"a tool plans and never acts: it starts nothing and connects to nothing"},

	{"confine/...", []string{ours}, []string{"confine/...", "sandboxprofile/...", "internal/memfile", "internal/statedir"},
		"enforcement takes a finished profile; it has no opinion on who may do what"},
	{"confine", []string{ours}, []string{"sandboxprofile/..."},
		"it says what a sandbox is, and knows nobody who builds one"},
	{"confine/hostfs", []string{ours}, []string{"confine/wire", "sandboxprofile"},
		"it looks at what stands at a path, and changes nothing"},
	{"confine/tripwire", []string{ours}, []string{"confine", "confine/broker", "confine/hostfs", "confine/quarantine", "confine/wire", "sandboxprofile", "sandboxprofile/bwrap"},
		"it judges what a call has left, and cannot tell what ran it"},
	{"confine/tripwire", []string{"os/exec", "net"}, nil,
		"it reads what an attacker wrote: it starts nothing, and git is no exception"},
	{"confine/linux", []string{"confine/platform", "confine/quarantine", "confine/seatbelt", "confine/sandboxinit"}, nil,
		"it builds sandboxes; what is taken away after a call is the tripwire's, and the init is another program"},
	{"confine/privatedirs", []string{ours}, []string{"confine", "confine/broker", "confine/hostfs", "confine/wire", "sandboxprofile", "sandboxprofile/landlock"},
		"it makes and removes directories of one sandbox, and starts nothing in them"},
	{"confine/seatbelt", []string{ours}, []string{"confine", "confine/hostfs", "sandboxprofile", "sandboxprofile/sbpl"},
		"the backend of one system shares nothing with another's but what a sandbox is"},
	{"confine/platform", []string{ours}, []string{"confine", "confine/linux", "confine/seatbelt", "confine/tripwire", "sandboxprofile"},
		"it chooses a backend and does nothing else"},
	{"confine/wire", []string{ours, others}, []string{"sandboxprofile"},
		"the messages between supervisor and init are linked into both"},
	{"confine/fileops", []string{ours, others, "os", "os/exec", "net", "syscall", "unsafe"}, []string{"sandboxprofile"},
		"it walks what it is handed: the only way to the disk is the one that follows no link"},
	{"confine/sandboxinit", []string{"os/exec", "net", "sandboxprofile/..."}, []string{"sandboxprofile"},
		"it starts in every sandbox: nothing slow to initialise, and nothing of a compiler inside"},
	{"confine/...", []string{"net/http"}, nil,
		"network filtering is package egress"},

	{"egress/...", []string{ours}, []string{"egress/...", "sandboxprofile", "internal/..."},
		"the proxy enforces host rules; it cannot ask, plan or record by itself"},

	{"internal/hostrule", []string{ours}, nil,
		"what a configuration lists is read as what a client asks for, by code that knows neither"},
	{"internal/hostrule", []string{"net", "os", "io"}, nil,
		"a rule is compared and nothing is looked up"},

	{"audit/...", []string{ours}, []string{"audit/...", "internal/..."},
		"evidence must not depend on what it is evidence of"},
	{"audit/...", []string{"net", "os/exec"}, nil,
		"the log is a file"},

	{"assemble", []string{"cmd/...", "adapters/...", "ui/...", "client/...", "confine/sandboxinit", "confine/wire", "confine/broker", "unsafe"}, nil,
		"it turns a configuration into a supervisor; how people and agents come in is for the program to say"},
	{"supervisor/...", []string{"cmd/...", "adapters/...", "ui/...", "client/...", "assemble"}, nil,
		"the one path of a call serves every way in, and knows none of them"},
	{"supervisor/...", []string{"os/exec"}, nil,
		"a program is started by confine and nowhere else: there is no second way to run one"},
	{"supervisor/server", []string{ours}, []string{"protocol", "approval", "confine", "internal/..."},
		"it answers on sockets, and reaches what it serves by an interface of its own: no tool, profile or log"},
	{"supervisor/explain", []string{ours}, []string{"protocol", "approval", "audit", "config", "sandboxprofile", "tools/...", "internal/unixsock", "supervisor/history", "supervisor/rulebook"},
		"it says what would become of a call and can make none"},
	{"supervisor", []string{"confine/..."}, []string{"confine"},
		"it sees the interface Confiner, not a backend"},
	{"config", []string{ours}, []string{"config/...", "approval", "sandboxprofile", "profiles", "tools/...", "internal/..."},
		"loading a file reads and checks; it wires nothing"},
	{"config/trust", []string{ours}, []string{"internal/..."},
		"it keeps what somebody vouched for, and cannot tell what that says"},
	{"supervisor/violation", []string{ours}, []string{"protocol", "sandboxprofile/..."},
		"it holds words against a profile, and neither decides nor runs"},
	{"supervisor/violation", []string{"os", "io/fs", "path/filepath", "syscall", "unsafe"}, nil,
		"it cannot look at the disk, so its answers cannot tell what exists there"},
	{"supervisor/store", []string{ours}, []string{"approval", "internal/..."},
		"it keeps what was answered and decides nothing"},

	{"supervisor/changes", []string{ours}, []string{"internal/..."},
		"it looks at files before and after a call, and cannot tell what a call is"},

	{"supervisor/outcome", []string{ours}, []string{"protocol", "confine", "sandboxprofile", "tools", "internal/must", "supervisor/violation"},
		"it says how a call has ended; it cannot decide, record or run"},
	{"supervisor/failure", []string{ours}, []string{"protocol", "approval", "audit", "confine", "tools", "supervisor/server"},
		"it turns errors into codes, and causes none"},
	{"supervisor/bounds", []string{ours}, []string{"approval", "sandboxprofile", "tools"},
		"it computes what holds a plan; it cannot have one carried out"},
	{"supervisor/bounds", []string{"os", "io/fs", "net", "syscall", "unsafe"}, nil,
		"the same for the same plan: it cannot look at the disk"},
	{"supervisor/frozen", []string{ours}, []string{"confine", "sandboxprofile", "tools", "internal/memfile", "supervisor/failure"},
		"it holds what was approved as it was; what that is was decided before"},
	{"supervisor/undo", []string{ours}, []string{"approval", "sandboxprofile", "tools", "supervisor/changes", "supervisor/outcome"},
		"it keeps what a plan may change, and cannot carry one out"},
	{"supervisor/widen", []string{ours}, []string{"approval", "protocol", "sandboxprofile", "tools"},
		"it finds what could be added to a plan; people add it"},
	{"supervisor/batch", []string{ours}, []string{"approval", "protocol", "supervisor/failure"},
		"it is an order, and cannot tell what a call is"},
	{"supervisor/external", []string{ours}, []string{"approval", "protocol", "sandboxprofile", "tools"},
		"what the agent carries out itself is judged here, and has nothing of a sandbox"},
	{"supervisor/review", []string{ours}, []string{"approval", "protocol", "sandboxprofile", "internal/must", "supervisor/bounds", "supervisor/mcphost"},
		"it asks about a draft; what carries calls out on one comes to it as an interface"},
	{"supervisor/gateway", []string{ours}, []string{"protocol", "approval", "confine", "egress", "sandboxprofile", "tools", "internal/gitsign", "internal/hostrule", "internal/loopback", "internal/memfile", "supervisor/failure", "supervisor/outcome", "supervisor/violation"},
		"it serves the connections of a call that was decided; it asks and records through an interface of its own"},
	{"supervisor/history", []string{ours}, []string{"protocol", "approval", "audit", "sandboxprofile", "tools", "internal/must"},
		"it has the form of what the log keeps, and decides nothing"},

	{"supervisor/background", []string{ours}, []string{"protocol", "approval", "tools", "internal/must"},
		"it keeps what was started: it cannot decide, plan or start"},
	{"supervisor/mcphost", []string{ours}, []string{"protocol", "approval", "confine", "sandboxprofile", "tools/...", "supervisor/background", "supervisor/mcpconn"},
		"it has the processes that it needs started for it, on the path of any other call, and decides nothing"},
	{"supervisor/mcpconn", []string{ours}, []string{"approval"},
		"it reads what an attacker writes, and hands on what it has read: it cannot decide, plan or run"},
	{"supervisor/mcpconn", []string{others, "os", "os/exec", "net", "net/http", "syscall", "unsafe"}, nil,
		"a conversation over two streams; whose they are is the supervisor's to say"},

	{"supervisor/relay", []string{ours}, []string{"approval"},
		"it carries calls to who decides about them, and what comes back; it cannot plan, decide or run"},
	{"supervisor/relay", []string{others, "os", "os/exec", "net", "net/http", "syscall", "unsafe"}, nil,
		"a conversation over one connection; whose it is is for the program to say"},

	{"client/...", []string{ours}, []string{"client/...", "protocol", "approval", "internal/unixsock"},
		"an agent runtime links it: whoever may only ask carries no code that can do"},
	{"ui/...", []string{ours}, []string{"ui/...", "client/...", "protocol", "approval", "internal/websock"},
		"an approver is an ordinary client, with no way in of its own"},
	{"ui/web", []string{"net", "os", "os/exec"}, nil,
		"the page listens nowhere: who may open it is decided before it is reached"},
	{"ui/highlight", []string{"github.com/alecthomas/chroma/v2/lexers", "github.com/alecthomas/chroma/v2/formatters", "github.com/alecthomas/chroma/v2/styles", "github.com/alecthomas/chroma/v2/quick"}, nil,
		"every command links it: initialising the package of all lexers takes 4 ms, and so does every start then"},
	{"adapters/...", []string{"cmd/...", "assemble", "confine/...", "tools/...", "audit/..."}, nil,
		"an adapter translates and calls; one that could plan or run would be a second policy"},
	{"adapters/http", []string{ours}, []string{"client", "protocol", "approval", "internal/..."},
		"whoever comes in over HTTP is a client of the operator socket, and has no other way to the supervisor"},
	{"adapters/http", []string{"os/exec"}, nil,
		"a request that starts a program would be a way around the one path of a call"},

	{"adapters/hooks", []string{"os", "os/exec", "net", "syscall", "unsafe"}, nil,
		"it turns one text into another; what it reads, asks and writes is handed in"},

	{"internal/...", []string{ours}, []string{"internal/..."},
		"helpers below everything"},
	{"profiles/...", []string{ours}, []string{"profiles/...", "sandboxprofile", "internal/units"},
		"shipped policy is data"},
	{"scripts/...", []string{ours}, nil,
		"what makes a file of the repository needs none of its packages"},
	{"cmd/sandgate-demo", []string{ours}, []string{"client", "protocol", "approval"},
		"the demo's agent and operator have no more than the two sockets that any agent and approver have"},
	{"cmd/sandgate-init", []string{ours}, []string{"confine/sandboxinit"},
		"one line of main; the work is in the package that is tested"},
	{"cmd/sandgate/...", []string{"unsafe", "confine/sandboxinit", "confine/wire"}, nil,
		"commands print and parse; the mechanisms are below"},
	{"cmd/sandgate/internal/cli", []string{ours}, []string{"approval", "protocol", "assemble", "sandboxprofile", "ui/present"},
		"every command stands on it, so it stands on none"},
	{"cmd/sandgate/internal/terminal", []string{ours}, []string{"cmd/sandgate/internal/cli", "approval", "protocol", "confine", "sandboxprofile", "ui/guard", "ui/present", "ui/vtfilter"},
		"it asks a person, and cannot tell what becomes of the answer"},
	{"cmd/sandgate/internal/settings", []string{ours}, []string{"cmd/sandgate/internal/cli", "approval", "assemble", "config", "tools"},
		"it loads a configuration, and starts nothing by it"},
	{"cmd/sandgate/internal/ruleservice", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/settings", "approval", "assemble", "audit", "client", "config", "internal/unixsock", "protocol", "supervisor", "supervisor/explain"},
		"it reaches rules as a supervisor would, and runs no call"},
	{"cmd/sandgate/internal/configdiff", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/settings", "cmd/sandgate/internal/ruleservice", "approval", "assemble", "config", "protocol", "sandboxprofile"},
		"it compares what would be decided, and has nothing carried out"},
	{"cmd/sandgate/internal/draft", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/terminal", "approval", "assemble", "config", "internal/statedir", "sandboxprofile", "supervisor/changes"},
		"it has this program started on a draft, and cannot tell what for"},
	{"cmd/sandgate/internal/needs", []string{ours}, []string{"cmd/sandgate/internal/cli", "approval", "assemble", "config", "protocol", "profiles", "profiles/toolchains", "sandboxprofile", "tools"},
		"it reads what was refused, and gives nothing"},
	{"cmd/sandgate/internal/fragment", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/needs", "approval", "config", "protocol"},
		"it is text that people read; nothing puts it in force"},
	{"cmd/sandgate/internal/run", []string{"cmd/sandgate/...", "confine/linux", "ui/...", "adapters/...", "client", "audit"}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/draft", "cmd/sandgate/internal/needs", "cmd/sandgate/internal/settings", "cmd/sandgate/internal/terminal"},
		"it has one command carried out; what becomes of what that leaves is for who asked"},
	{"cmd/sandgate/internal/filediff", []string{ours}, []string{"cmd/sandgate/internal/cli", "approval", "supervisor/changes"},
		"it shows what two files hold, and touches none"},
	{"cmd/sandgate/internal/putback", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/needs", "cmd/sandgate/internal/run", "approval", "sandboxprofile", "supervisor/changes"},
		"it writes to a workspace only as a call that is confined"},
	{"cmd/sandgate/internal/review", []string{"cmd/sandgate/...", "confine/linux", "adapters/..."},
		[]string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/draft", "cmd/sandgate/internal/filediff", "cmd/sandgate/internal/putback", "cmd/sandgate/internal/run", "cmd/sandgate/internal/terminal"},
		"it keeps and drops drafts, and knows no other command"},
	{"cmd/sandgate/internal/undo", []string{"cmd/sandgate/...", "confine/linux", "adapters/..."},
		[]string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/filediff", "cmd/sandgate/internal/putback", "cmd/sandgate/internal/review", "cmd/sandgate/internal/terminal"},
		"it plans what is put back; a sandbox does it"},
	{"cmd/sandgate/internal/boards", []string{ours}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/filediff", "cmd/sandgate/internal/putback", "cmd/sandgate/internal/review", "cmd/sandgate/internal/undo", "assemble", "confine/quarantine", "supervisor/changes", "ui/board", "ui/present"},
		"a screen does what a command does, by the same means"},
	{"cmd/sandgate/internal/learn", []string{"cmd/sandgate/...", "confine/linux", "ui/...", "adapters/..."},
		[]string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/configdiff", "cmd/sandgate/internal/draft", "cmd/sandgate/internal/fragment", "cmd/sandgate/internal/needs", "cmd/sandgate/internal/run", "cmd/sandgate/internal/settings", "cmd/sandgate/internal/terminal"},
		"it tries a command on drafts, and proposes; it keeps nothing of what the tries left"},
	{"cmd/sandgate/internal/serve", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/boards", "cmd/sandgate/internal/cli", "cmd/sandgate/internal/draft", "cmd/sandgate/internal/review", "cmd/sandgate/internal/run", "cmd/sandgate/internal/settings", "cmd/sandgate/internal/terminal"},
		"it keeps a supervisor running, and decides nothing"},
	{"cmd/sandgate/internal/hook", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/cli"},
		"it hands a hook of an agent runtime to the adapter"},
	{"cmd/sandgate/internal/approve", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/boards", "cmd/sandgate/internal/cli", "cmd/sandgate/internal/serve", "cmd/sandgate/internal/terminal"},
		"an approver at a terminal; it is a client of the operator socket"},
	{"cmd/sandgate/internal/approvals", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/cli"},
		"it is a client of the operator socket, and nothing else"},
	{"cmd/sandgate/internal/profilecmd", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/configdiff", "cmd/sandgate/internal/settings"},
		"it shows profiles, and runs nothing under one"},
	{"cmd/sandgate/internal/configcmd", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/configdiff", "cmd/sandgate/internal/settings", "cmd/sandgate/internal/terminal"},
		"it writes configuration files that a person names, and starts nothing by them"},
	{"cmd/sandgate/internal/auditcmd", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/cli", "cmd/sandgate/internal/ruleservice", "cmd/sandgate/internal/settings"},
		"it reads the log"},
	{"cmd/sandgate/internal/rulescmd", []string{"cmd/sandgate/..."}, []string{"cmd/sandgate/internal/auditcmd", "cmd/sandgate/internal/cli", "cmd/sandgate/internal/fragment", "cmd/sandgate/internal/ruleservice"},
		"it looks at rules and changes them, and makes no call"},
	{"cmd/sandgate/internal/bench", []string{"supervisor/...", "confine/linux", "egress", "ui/...", "adapters/..."}, nil,
		"it measures from outside: what is slow there is slow for a client"},
}

// initImports is everything from other modules that the first process inside a
// sandbox is made of. It is started for every sandbox, waits in every cell and is
// the code nearest to the attacker: a new line here is a decision.
var initImports = []string{
	"github.com/landlock-lsm/go-landlock/landlock/syscall",
	"golang.org/x/sys/unix",
	"kernel.org/pub/linux/libs/security/libcap/psx",
}

// A source is one parsed file of this module, found whatever its build tags.
type source struct {
	dir, name string
	file      *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, file := range files(t) {
		if path.Ext(file) != ".go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{path.Dir(file), path.Base(file), parsed})
	}
	return all
}

// files lists the repository's files, slash-separated, without what git ignores
// by convention: bin, dist, what is made beside the init, testdata's fuzz finds, and anything hidden but .ci.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "dist" || hidden(name)) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && filepath.ToSlash(name) != "confine/initbin/built.go" {
			all = append(all, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func hidden(dir string) bool {
	return strings.HasPrefix(dir, ".") && dir != "." && dir != ".ci"
}

// matches reports whether the package with this import path falls under one of
// the patterns.
func matches(importPath string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		dir, isOurs := strings.CutPrefix(importPath, module+"/")
		switch pattern {
		case ours:
			return isOurs
		case others:
			return !isOurs && strings.Contains(strings.Split(importPath, "/")[0], ".")
		case importPath:
			return true
		}
		return isOurs && within(dir, pattern)
	})
}

// within reports whether directory dir falls under pattern.
func within(dir, pattern string) bool {
	top, tree := strings.CutSuffix(pattern, "/...")
	return dir == top || tree && strings.HasPrefix(dir, top+"/")
}

// imports returns the paths that a file imports.
func imports(t *testing.T, f *ast.File) []string {
	t.Helper()
	var paths []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// TestImportsFollowTheLayout proves that no arrow points the wrong way.
func TestImportsFollowTheLayout(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, imported := range imports(t, s.file) {
			if a := breaks(s.dir, imported); a != nil {
				t.Errorf("%s/%s imports %s: %s must not: %s", s.dir, s.name, imported, a.from, a.why)
			}
		}
	}
}

// breaks returns the arrow that forbids dir to import a package, or nil.
func breaks(dir, imported string) *arrow {
	for i, a := range forbidden {
		if within(dir, a.from) && matches(imported, a.to) && !matches(imported, a.except) {
			return &forbidden[i]
		}
	}
	return nil
}

// TestArrowsForbid proves that the table can say no: a checker that never finds
// anything looks exactly like a repository in order.
func TestArrowsForbid(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		forbidden     bool
	}{
		{"approval", module + "/protocol", true},
		{"approval", "golang.org/x/text/unicode/norm", true},
		{"approval", "os/exec", true},
		{"approval", "encoding/json", false},
		{"protocol", module + "/tools", true},
		{"protocol", module + "/approval", false},
		{"tools/shell", module + "/confine", true},
		{"confine", module + "/confine/linux", true},
		{"confine/tripwire", module + "/confine/linux", true},
		{"confine/tripwire", "os/exec", true},
		{"confine/seatbelt", module + "/confine/linux", true},
		{"confine/linux", module + "/confine/tripwire", false},
		{"assemble", module + "/ui/present", true},
		{"assemble", module + "/supervisor", false},
		{"tools/shell", module + "/approval", false},
		{"tools/shell", "mvdan.cc/sh/v3/syntax", false},
		{"supervisor", module + "/cmd/sandgate", true},
		{"cmd/sandgate/internal/cli", module + "/supervisor", true},
		{"cmd/sandgate/internal/run", module + "/cmd/sandgate/internal/review", true},
		{"cmd/sandgate/internal/review", module + "/cmd/sandgate/internal/run", false},
		{"supervisor", "os/exec", true},
		{"supervisor/gateway", module + "/supervisor", true},
		{"supervisor/bounds", "os", true},
		{"supervisor/gateway", module + "/egress", false},
		{"supervisor", module + "/confine", false},
		{"client", module + "/supervisor", true},
		{"client", module + "/protocol", false},
	} {
		if got := breaks(c.dir, c.imported) != nil; got != c.forbidden {
			t.Errorf("%s importing %s: forbidden is %t, want %t", c.dir, c.imported, got, c.forbidden)
		}
	}
}

// TestEveryPackageHasAPlace proves that no package escapes the table by being new.
func TestEveryPackageHasAPlace(t *testing.T) {
	for _, s := range sources(t) {
		placed := slices.ContainsFunc(forbidden, func(a arrow) bool { return within(s.dir, a.from) })
		if !placed && s.dir != "." {
			t.Errorf("%s/%s: no arrow says what package %s must not import", s.dir, s.name, s.dir)
		}
	}
}

// TestInitImportsLittle proves what the in-sandbox init is made of.
func TestInitImportsLittle(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/sandgate-init")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range strings.Fields(string(out)) {
		if matches(p, []string{others}) && !strings.HasPrefix(p, "vendor/") {
			got = append(got, p)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, initImports) {
		t.Errorf("sandgate-init is made of\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(initImports, "\n\t"))
	}
}

// TestOnePackageComment proves that each package explains itself once.
func TestOnePackageComment(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		if comments[s.dir] == nil {
			comments[s.dir] = []string{}
		}
		if s.file.Doc != nil {
			comments[s.dir] = append(comments[s.dir], s.name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(comments)) {
		if len(comments[dir]) != 1 {
			t.Errorf("%s has %d package comments %q, want exactly one", dir, len(comments[dir]), comments[dir])
		}
	}
}

// TestNoPackageState proves that nothing registers itself or changes behind the
// caller's back: cmd builds everything, so the imports show the whole graph.
func TestNoPackageState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s/%s has an init function", s.dir, s.name)
			}
		}
	}
}

// testNames returns the names of all tests and fuzz targets; of all scripts of
// cmd/sandgate as TestScript/NAME; and of the claims that every backend keeps as
// TestBwrapKeepsEveryClaim/NAME and TestLandlockKeepsEveryClaim/NAME.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test() && testName.MatchString(f.Name.Name) {
				names[f.Name.Name] = true
			}
		}
	}
	for _, claim := range submatches(claimName, read(t, "confine/confinetest/confinetest.go")) {
		names["TestBwrapKeepsEveryClaim/"+claim] = true
		names["TestLandlockKeepsEveryClaim/"+claim] = true
	}
	for _, file := range files(t) {
		if name, ok := strings.CutSuffix(path.Base(file), ".txtar"); ok && path.Base(path.Dir(file)) == "script" {
			names["TestScript/"+name] = true
		}
	}
	return names
}

var (
	testName  = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	claimName = regexp.MustCompile(`(?m)^\s*\{name: "(\w+)", says:`)
	testInDoc = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*(?:/\\w+)?)`")
	// A guarantee is a row of a table whose first cell is a number: | G7 | ...
	guarantee = regexp.MustCompile(`(?m)^\| *(G\d+) *\|.*$`)
)

// TestGuaranteesAreTested proves that each guarantee of the threat model names
// the test that shows it, that the test exists, and that no number stands for two
// guarantees or two decision notes.
func TestGuaranteesAreTested(t *testing.T) {
	text := read(t, "docs/threat-model.md")
	known := testNames(t)
	rows := guarantee.FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		t.Fatal("docs/threat-model.md has no guarantees")
	}
	numbered := map[string]bool{}
	for _, row := range rows {
		if !testInDoc.MatchString(row[0]) {
			t.Errorf("guarantee %s names no test", row[1])
		}
		if numbered[row[1]] {
			t.Errorf("two guarantees are called %s", row[1])
		}
		numbered[row[1]] = true
	}
	for _, name := range documents(t) {
		dir, file := path.Split(name)
		number, _, _ := strings.Cut(file, "-")
		if dir != "docs/decisions/" {
			continue
		}
		if numbered[number] {
			t.Errorf("two notes are called %s", number)
		}
		numbered[number] = true
	}
	for _, name := range testInDoc.FindAllStringSubmatch(text, -1) {
		if !known[name[1]] {
			t.Errorf("docs/threat-model.md names %s, which does not exist", name[1])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents returns the names of all Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(files(t), func(name string) bool { return path.Ext(name) != ".md" })
}

var (
	makeInDoc    = regexp.MustCompile("(?m)(?:`|^ {4}\\$? ?|^\\$ )make ([a-z][a-z-]*)")
	commandInDoc = regexp.MustCompile("(?m)(?:`|^ {4}\\$? ?|^\\$ )sandgate ([a-z][a-z-]*)")
	linkInDoc    = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	newCommand   = regexp.MustCompile(`Use:\s+"([a-z][a-z-]*)`)
)

// TestDocumentsNameWhatExists proves that the make targets, commands and files
// that the documents point to are there.
func TestDocumentsNameWhatExists(t *testing.T) {
	targets := submatches(makeTarget, read(t, "Makefile"))
	var commands []string
	for _, s := range sources(t) {
		if within(s.dir, "cmd/sandgate/...") && !s.test() {
			commands = append(commands, submatches(newCommand, read(t, path.Join(s.dir, s.name)))...)
		}
	}
	for _, doc := range documents(t) {
		text := read(t, doc)
		for _, target := range submatches(makeInDoc, text) {
			if !slices.Contains(targets, target) {
				t.Errorf("%s: `make %s`: the Makefile has no such target", doc, target)
			}
		}
		for _, command := range submatches(commandInDoc, text) {
			if !slices.Contains(commands, command) {
				t.Errorf("%s: `sandgate %s`: there is no such command", doc, command)
			}
		}
		for _, link := range submatches(linkInDoc, text) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), link)); err != nil {
				t.Errorf("%s: broken link: %v", doc, err)
			}
		}
	}
}

// TestNoFileKnowsItsCheckout proves that no file holds the path of the directory
// that it was written in: it would be wrong everywhere else.
func TestNoFileKnowsItsCheckout(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(here, "/") < 2 {
		t.Skipf("a checkout in %s has a path that says nothing", here)
	}
	for _, name := range files(t) {
		if strings.Contains(read(t, name), here+"/") {
			t.Errorf("%s mentions %s", name, here)
		}
	}
}

// TestScriptsExplainThemselves proves that each script can be run, says how in its
// first lines, and parses.
func TestScriptsExplainThemselves(t *testing.T) {
	for _, name := range files(t) {
		if path.Dir(name) != "scripts" && path.Dir(name) != ".ci" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", name)
		}
		text := read(t, name)
		if !strings.Contains(text, "usage: "+name) {
			t.Errorf("%s has no line \"usage: %s ...\"", name, name)
		}
		interpreter, shell := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "#!/bin/")
		if !shell {
			continue
		}
		if out, err := exec.Command("/bin/"+interpreter, "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// submatches returns the first group of every match.
func submatches(re *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestWhatIsReadWholeStaysSmall: what reads command lines, and the path of a call, are read by people to
// the last line. What is known of programs is data, and is not counted.
func TestWhatIsReadWholeStaysSmall(t *testing.T) {
	lines := map[string]int{}
	for _, s := range sources(t) {
		if !s.test() {
			lines[s.dir] += strings.Count(read(t, path.Join(s.dir, s.name)), "\n")
		}
	}
	for dir, most := range map[string]int{"tools/shell": 6330, "supervisor": 3000} {
		if n := lines[dir]; n == 0 || n > most {
			t.Errorf("%s has %d lines of code, want at most %d: simplify it before it grows", dir, n, most)
		}
	}
}

// TestSentencesAreMadeInOnePlace: what an operator reads on a board, in an offer or of an answer is
// a present.Sentence, and no text becomes one but by the functions that tell it from our words.
func TestSentencesAreMadeInOnePlace(t *testing.T) {
	made := 0
	for _, dir := range []string{"ui/present", "ui/board", "ui/tui", "ui/web", "cmd/sandgate", "cmd/sandgate/internal/*"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				name, _ := call.Fun.(*ast.Ident)
				if s, ok := call.Fun.(*ast.SelectorExpr); ok {
					name = s.Sel
				}
				if _, constant := call.Args[0].(*ast.BasicLit); name == nil || name.Name != "Sentence" || constant {
					return true
				}
				if made++; file != "ui/present/sentence.go" {
					t.Errorf("%s makes a sentence of a text", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if made == 0 {
		t.Error("no sentence is made: the test looks for the wrong name")
	}
}
