package present

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A Risk is a piece of a command that a person should look at, and why. It is a signpost
// and no boundary: what a command can do is for its sandbox to say, and a command that
// hides what it does has none.
type Risk struct {
	Reason string // words of ours
	// Start and End are where the piece stands in Content, in bytes; both are 0 where the
	// content is not the text that was read.
	Start, End int
	lasting    bool // it cannot be taken back
}

const maxRisks = 6

// Risks are what speaks against a command, in the order of the text.
func Risks(a *protocol.Approval) []Risk {
	if a.Presentation == nil || a.Presentation.Type != approval.Command {
		return nil
	}
	content, _ := Content(a)
	command, ok := a.Payload["command"].(string)
	if !ok {
		return nil
	}
	if len(command) > maxScanned {
		return []Risk{{Reason: "this text is too long to be checked", lasting: true}}
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return []Risk{{Reason: "this text cannot be read as a command", lasting: true}}
	}
	r := riskReader{offline: a.Details["network"] == "none"}
	syntax.Walk(f, r.node)
	r.list = worst(r.list)
	// A content that was escaped or changed has its pieces elsewhere.
	margin := note(a.Presentation, approval.Margin)
	shown := func(at int) string { return margin + strings.ReplaceAll(command[:at], "\n", "\n"+margin) }
	for i := range r.list {
		if x := &r.list[i]; x.End > 0 && strings.HasPrefix(content, shown(x.End)) {
			x.Start, x.End = len(shown(x.Start)), len(shown(x.End))
		} else {
			x.Start, x.End = 0, 0
		}
	}
	return r.list
}

// worst are as many as are shown, in the order of the text: each reason once before any
// twice, and what cannot be taken back first. Harmless ones push none of them out.
func worst(list []Risk) []Risk {
	slices.SortStableFunc(list, func(x, y Risk) int { return x.Start - y.Start })
	seen := map[string]bool{}
	var lasting, others, again []Risk
	for _, x := range list {
		switch {
		case seen[x.Reason]:
			again = append(again, x)
		case x.lasting:
			lasting = append(lasting, x)
		default:
			others = append(others, x)
		}
		seen[x.Reason] = true
	}
	shown := slices.Concat(lasting, others, again)
	shown = shown[:min(len(shown), maxRisks)]
	slices.SortStableFunc(shown, func(x, y Risk) int { return x.Start - y.Start })
	return shown
}

// RiskReasons are the reasons, each once: what would do harm, and then what cannot succeed.
func RiskReasons(list []Risk) (reasons []string) {
	for _, r := range list {
		if !slices.Contains(reasons, r.Reason) {
			reasons = append(reasons, r.Reason)
		}
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return strings.Count(a, cannotSucceed) - strings.Count(b, cannotSucceed) })
	return reasons
}

// cannotSucceed begins the reasons that are about a call in vain.
const cannotSucceed = "cannot succeed"

type riskReader struct {
	list    []Risk
	offline bool
}

func (r *riskReader) add(from, to syntax.Pos, lasting bool, reason string, more ...any) {
	r.list = append(r.list, Risk{fmt.Sprintf(reason, more...), int(from.Offset()), int(to.Offset()), lasting})
}

func (r *riskReader) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			if c, ok := n.Y.Cmd.(*syntax.CallExpr); ok && readsCode(words(c)) {
				reason := "runs the output of another program"
				if fetches(n.X) {
					reason = "runs code from the internet"
				}
				r.add(n.OpPos, n.Y.End(), false, "%s", reason)
			}
		}
	case *syntax.CallExpr:
		r.call(n)
	}
	return true
}

// words are those of a call that are plain text; others are "". Programs that only start
// another are passed over.
func words(c *syntax.CallExpr) []string {
	var list []string
	for _, w := range c.Args {
		list = append(list, plain(w))
	}
	for len(list) > 1 && slices.Contains([]string{"sudo", "doas", "env", "nohup", "time", "nice", "command", "exec", "xargs", "timeout"}, path.Base(list[0])) {
		list = list[1:]
		for len(list) > 1 && (strings.HasPrefix(list[0], "-") || strings.Contains(list[0], "=") || list[0] != "" && strings.Trim(list[0], "0123456789smh") == "") {
			list = list[1:]
		}
	}
	if len(list) > 0 {
		list[0] = path.Base(list[0])
	}
	return list
}

// plain is the text of a word as far as it is fixed.
func plain(w *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			case *syntax.ParamExp:
				b.WriteString("$")
			}
		}
	}
	add(w.Parts)
	return b.String()
}

func isInterpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh", "fish", "python", "node", "deno", "bun", "perl", "ruby", "php", "lua", "Rscript"}, name)
}

// readsCode reports whether a program takes a script from what is written to it.
func readsCode(list []string) bool {
	if len(list) == 0 || !isInterpreter(list[0]) {
		return false
	}
	return len(list) == 1 || strings.HasPrefix(list[1], "-") && list[1] != "-c" && list[1] != "-e" && list[1] != "-m"
}

// fetches reports whether something in a node loads from the network.
func fetches(n syntax.Node) (yes bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			if list := words(c); len(list) > 0 && slices.Contains([]string{"curl", "wget", "fetch", "aria2c", "http", "https", "nc", "ncat"}, list[0]) {
				yes = true
			}
		}
		return true
	})
	return yes
}

func (r *riskReader) call(c *syntax.CallExpr) {
	list := words(c)
	if len(list) == 0 {
		return
	}
	name, args := list[0], list[1:]
	at := func(lasting bool, reason string) { r.add(c.Pos(), c.End(), lasting, "%s", reason) }
	short := func(letter string) bool { // among its options
		return slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, letter)
		})
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(words, a) })
	}
	sub := ""
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			sub = a
			break
		}
	}
	switch p := path.Base(plain(c.Args[0])); p {
	case "sudo", "doas", "su":
		at(false, "requests the rights of another user")
	}
	switch {
	case (isInterpreter(name) || name == "eval" || name == "source" || name == ".") && fetches(c):
		at(false, "runs code from the internet")
	case name == "rm" && (short("r") || short("R") || has("--recursive")):
		outside := slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "/") || strings.HasPrefix(a, "~") || strings.HasPrefix(a, "$") || strings.Contains(a, "..") || a == "*" || a == "." || a == ""
		})
		if outside {
			at(true, "deletes whole directories; the path may cover more than it shows")
		} else {
			at(true, "deletes whole directories; git can restore only committed files")
		}
	case name == "rm", name == "unlink", name == "shred":
		at(true, "deletes files; git can restore only committed files")
	case name == "find" && (has("-delete") || has("rm")):
		at(true, "deletes what it finds")
	case name == "dd", strings.HasPrefix(name, "mkfs"), name == "truncate":
		at(true, "overwrites existing data")
	case (name == "chmod" || name == "chown" || name == "chgrp") && (short("R") || has("--recursive")):
		at(false, "touches many files")
	case name == "sed" && (short("i") || has("--in-place")) && slices.ContainsFunc(args, func(a string) bool { return strings.ContainsAny(a, "*?$") }):
		at(false, "touches many files")
	case name == "git":
		r.git(at, sub, has, short)
	case slices.Contains([]string{"npm", "pnpm", "yarn", "cargo", "gem", "poetry", "uv"}, name) && sub == "publish", name == "twine" && sub == "upload",
		(name == "docker" || name == "podman") && sub == "push", name == "gh" && (sub == "release" || sub == "pr" || sub == "repo"):
		at(true, "publishes for others to see")
	}
	if r.offline && needsNetwork(name, sub) {
		r.list = append(r.list, Risk{Reason: "cannot succeed: it has no network here"})
	}
}

func (r *riskReader) git(at func(bool, string), sub string, has func(...string) bool, short func(string) bool) {
	switch {
	case sub == "push" && (has("--force", "--mirror", "--delete") || short("f")):
		at(true, "pushes and overwrites what is on the remote")
	case sub == "push":
		at(true, "pushes to another repository")
	case sub == "clean" && (short("f") || has("--force")):
		at(true, "deletes files that git does not track")
	case sub == "reset" && has("--hard"), sub == "checkout" && (has(".", "--") || short("f")), sub == "restore", sub == "stash" && has("drop", "clear"):
		at(true, "discards uncommitted changes")
	case sub == "branch" && (short("D") || has("--delete")), sub == "filter-branch", sub == "reflog" && has("expire"), sub == "gc" && has("--prune=now"):
		at(true, "discards commits")
	}
}

func needsNetwork(name, sub string) bool {
	switch name {
	case "curl", "wget", "ssh", "scp", "rsync", "ping", "nc", "ncat", "npx":
		return true
	case "git":
		return slices.Contains([]string{"clone", "fetch", "pull", "push", "ls-remote"}, sub)
	case "npm", "pnpm", "yarn", "bun":
		return slices.Contains([]string{"install", "i", "add", "ci", "publish", "update"}, sub)
	case "pip", "pip3", "uv", "poetry", "gem", "cargo", "go":
		return slices.Contains([]string{"install", "get", "add", "download", "publish", "sync"}, sub)
	case "apt", "apt-get", "brew", "dnf", "apk":
		return true
	}
	return false
}
