package needs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// PrintViolations says a line for each thing that the sandbox refused, or that
// the call did against its profile.
func PrintViolations(a *cli.App, violations []protocol.Violation) {
	for _, v := range violations {
		text := fmt.Sprintf("%s (%s): %s", Subject(v), v.Basis, v.Reason)
		if v.Allow != "" {
			text += "; to allow it: " + v.Allow
		}
		fmt.Fprintf(a.Err, "sandgate: violation: %s\n", approval.EscapeLine(text))
	}
}

// PrintRefusals is printViolations for a command whose own output went to the
// terminal: what was only inferred from that output is one line at its end.
func PrintRefusals(a *cli.App, violations []protocol.Violation, d assemble.Derived) {
	var observed []protocol.Violation
	var subjects, flags, write []string
	for _, v := range violations {
		allow := flagsFor(v, d)
		if v.Basis != protocol.Inferred {
			if len(allow) > 0 {
				v.Allow = strings.Join(allow, " ")
			}
			observed = append(observed, v)
			continue
		}
		subjects = append(subjects, Subject(v))
		flags = append(flags, allow...)
		write = append(write, flagsToWrite(v, d)...)
	}
	PrintViolations(a, observed)
	if len(subjects) == 0 {
		return
	}
	text := "the sandbox probably refused: " + cli.FirstFew(subjects)
	if len(flags) > 0 {
		text += "; to allow: " + typedFlags(flags)
	}
	if len(write) > 0 {
		text += "; to make it writable: " + typedFlags(write)
	}
	fmt.Fprintf(a.Err, "sandgate: %s\n", approval.EscapeLine(text))
}

// typedFlags are flags as they are typed, each once.
func typedFlags(flags []string) string {
	slices.Sort(flags)
	return strings.Join(slices.Compact(flags), " ")
}

// Subject names what was refused, in a few words.
func Subject(v protocol.Violation) string {
	switch {
	case v.Kind == protocol.ViolationNetwork && v.Host == "" && v.Path == "":
		return "more connections"
	case v.Kind == protocol.ViolationNetwork && v.Port != 0:
		return fmt.Sprintf("connect %s:%d", v.Host, v.Port)
	case v.Kind == protocol.ViolationNetwork:
		return "connect " + v.Host + v.Path // a host, or a Unix socket
	case v.SystemCall != "":
		return "system call " + v.SystemCall
	case v.Limit != "":
		return "limit " + v.Limit
	}
	if v.Path == "" {
		return cmp.Or(string(v.Right), "more") // the end of a list
	}
	return strings.TrimSpace(string(v.Right) + " " + approval.EscapeName(v.Path))
}

// A Need is one thing that a call was refused, as a configuration would give it.
type Need struct {
	Path   string `json:"path,omitempty"`
	Write  bool   `json:"write,omitempty"`
	Host   string `json:"host,omitempty"`
	Preset string `json:"preset,omitempty"` // that covers the path
	Env    string `json:"env,omitempty"`    // the name of a variable
}

// flagsFor are the flags of `sandgate run` that allow what was refused.
func flagsFor(v protocol.Violation, d assemble.Derived) (flags []string) {
	if v.Allow == "sandbox.debug: true" {
		return []string{"--debug"}
	}
	var hosts []string
	for _, n := range Of(v, d) {
		switch {
		case n.Host != "":
			hosts = append(hosts, n.Host)
		case n.Write:
			flags = append(flags, "--rw "+tools.QuoteWord(n.Path))
		default:
			flags = append(flags, "--ro "+tools.QuoteWord(n.Path))
		}
	}
	if len(hosts) > 0 {
		flags = append(flags, "--network "+tools.QuoteWord(strings.Join(hosts, ",")))
	}
	return flags
}

// Of is what would allow something that was refused: nothing, if that would be refused too
// or would change nothing. The files of the machine are looked at for that, because this is
// said to the person, and not to the program.
func Of(v protocol.Violation, d assemble.Derived) (needs []Need) {
	needs = needsUnbounded(v, d)
	return slices.DeleteFunc(needs, func(n Need) bool { return n.Path != "" && !d.CanBeGranted(n.Path, n.Write) })
}

func needsUnbounded(v protocol.Violation, d assemble.Derived) (needs []Need) {
	switch {
	case strings.HasPrefix(v.Allow, "shell.network:"):
		for _, m := range quotedRule().FindAllStringSubmatch(v.Allow, -1) {
			needs = append(needs, Need{Host: m[1]})
		}
		return needs
	case !strings.HasPrefix(v.Allow, "sandbox.paths."):
		return nil
	case v.Right == protocol.RightWrite:
		return needsToWrite(v.Path)
	}
	info, err := os.Stat(v.Path)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(v.Path); err == nil && real == v.Path && (info.IsDir() || info.Mode()&0o111 == 0) {
		return []Need{{Path: v.Path}}
	}
	return ToShow(d, v.Path) // a link is shown with what it leads to, a program with what it needs
}

// quotedRule is a host in the line of the configuration that allows it.
var quotedRule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"([^"]*)"`) })

// flagsToWrite are flags for what could not be read, and is not there: a program may have
// been about to make it, which the words of an error do not tell.
func flagsToWrite(v protocol.Violation, d assemble.Derived) []string {
	if _, err := os.Lstat(v.Path); err == nil || v.Right == protocol.RightWrite || !strings.HasPrefix(v.Allow, "sandbox.paths.") {
		return nil
	}
	dir := filepath.Dir(v.Path)
	if slices.Contains(d.Programs.Scratch, dir) {
		return nil // programs can write there already
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	for _, n := range needsToWrite(v.Path) {
		if d.CanBeGranted(n.Path, true) {
			return []string{"--rw " + tools.QuoteWord(n.Path)}
		}
	}
	return nil
}

// needsToWrite lets a path be written. For a path that does not exist yet, it is the
// nearest directory that does.
func needsToWrite(path string) []Need {
	for path != "/" {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	written := &config.Config{}
	written.Sandbox.Paths = []config.Path{{Root: real, Mode: config.ReadWrite}}
	if home, err := os.UserHomeDir(); assemble.CheckPlaces(written, "") != nil || err == nil && sandboxprofile.Contains(real, home) {
		return nil // what is missing is one file, and not all that the person has
	}
	return []Need{{Path: path, Write: true}}
}

func (n Need) String() string {
	switch {
	case n.Host != "":
		return "connect " + n.Host
	case n.Write:
		return "write " + n.Path
	}
	return "read " + n.Path
}
