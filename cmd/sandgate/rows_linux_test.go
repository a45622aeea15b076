package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approvals"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/auditcmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// TestRowsBreakLinesThemselves: however a text comes to a terminal, in whatever parts and over
// whichever of the two streams, no row is wider than the terminal, each that does not begin a line of
// the text begins with the mark, and nothing of the text is lost.
func TestRowsBreakLinesThemselves(t *testing.T) {
	const seeds = 300
	pieces := []string{"x", "row ", "語", "é", "é", "\n", "\t", "      ", "👍🏽", "\x1b[8m", "\x1b[2K", cli.Red, cli.Plain, "\r\n", "\ra", "\u202e", "q", "12:00:00 ✓ shell approved"}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 16))
		x := newTerminal(t, "xterm")
		width := []int{20, 60, 80}[r.IntN(3)]
		if err := unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}); err != nil {
			t.Fatal(err)
		}
		a := newApp(nil, x.slave, x.slave)
		var whole strings.Builder
		for range r.IntN(40) {
			part := strings.Repeat(pieces[r.IntN(len(pieces))], 1+r.IntN(30))
			whole.WriteString(part)
			to := a.Out
			if r.IntN(2) == 0 {
				to = a.Err
			}
			if n, err := fmt.Fprint(to, part); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		fmt.Fprintln(a.Out, "\n¶")
		x.see("¶\r\r\n")
		// The terminal puts a return of its own before each line feed.
		got := strings.Split(strings.TrimSuffix(strings.ReplaceAll(x.output(), "\r\r\n", "\n"), "\n"), "\n")
		lines := []string{}
		for _, row := range got {
			row = uncoloured(row)
			if present.Width(row) > width || strings.ContainsAny(row, "\x1b\r\t") {
				t.Fatalf("seed %d, %d columns: a row of %d: %q", seed, width, present.Width(row), row)
			}
			if more, ok := strings.CutPrefix(row, present.Margin); ok && len(lines) > 0 {
				lines[len(lines)-1] += more
			} else {
				lines = append(lines, row)
			}
		}
		text := uncoloured(strings.ReplaceAll(whole.String(), "\r\n", "\n")) + "\n¶"
		want := strings.Split(text, "\n")
		if len(lines) != len(want) {
			t.Fatalf("seed %d: %d lines of %d: %q", seed, len(lines), len(want), lines)
		}
		for i := range want {
			if squeezed(approval.Escape(strings.ReplaceAll(want[i], "\t", ""))) != squeezed(lines[i]) {
				t.Fatalf("seed %d: line %d is\n%q\nnot\n%q", seed, i, lines[i], want[i])
			}
		}
	}
}

func uncoloured(text string) string {
	for _, code := range cli.OurCodes {
		text = strings.ReplaceAll(text, code, "")
	}
	return text
}

// squeezed is a text without blanks: a tab is as many as there is room for.
func squeezed(text string) string { return strings.ReplaceAll(text, " ", "") }

// whatGoesBare are the functions that write to a terminal as it is, and why no text of an agent's
// gets to a row of ours there.
var whatGoesBare = map[string]string{
	"root":               "help",
	"approve":            "the plain mode breaks lines itself",
	"approveOnScreen":    "the screen breaks lines itself",
	"complete":           "a script, which is ours",
	"newConfigSchemaCmd": "JSON, which is ours",
	"OpenConsole":        "a program has the terminal",
	"NewProgramOutput":   "whether both streams are one file",
	"newProgramOutput":   "a program has the terminal",
	"filtered":           "a program's output, behind the filter",
	"inDraft":            "a sandgate below, whose rows these are",
	"mcpServe":           "MCP",
	"mcpWrap":            "MCP",
	"changeSettings":     "JSON, for a file",
	"announceHTTP":       "a link, which is ours, and whole to be clicked",
	"PrintLink":          "a link, which is ours, and whole to be clicked",
}

// TestOnlyTheseGoBare: no command writes around the rows but those that are named here.
func TestOnlyTheseGoBare(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "internal/*/*.go"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	unused := maps.Clone(whatGoesBare)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, _ := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Bare" {
						if f == nil || whatGoesBare[f.Name.Name] == "" {
							t.Errorf("%s: %s writes to a terminal as it is: say why in whatGoesBare", name, f.Name)
						} else {
							delete(unused, f.Name.Name)
						}
					}
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "os" && name != "main.go" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr") {
						t.Errorf("%s: os.%s goes around the rows: write to app.out or app.err", name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for name := range unused {
		t.Errorf("%s does not call cli.Bare", name)
	}
}

// TestJSONOnATerminal: what a terminal could act on stands as a code point in JSON, also in the lines of the log,
// and is the same value. A program at the other end of a pipe gets the bytes.
func TestJSONOnATerminal(t *testing.T) {
	const hostile = "\u009b2J\u009d0;owned\u009c\u202e\u05d0\u200b\x7f語👍"
	for name, print := range map[string]func(io.Writer) error{
		"a value": func(w io.Writer) error { return cli.PrintJSON(w, []string{hostile}) },
		"a line of the log": func(w io.Writer) error {
			x := &auditcmd.Command{App: &cli.App{Out: w}, AsJSON: true}
			return x.PrintEntry(audit.Entry{Tool: hostile})
		},
	} {
		x := newTerminal(t, "xterm")
		if err := print(newApp(nil, x.slave, x.slave).Out); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(x.slave, "¶")
		x.see("¶")
		got := strings.TrimSuffix(x.output(), "¶")
		if strings.IndexFunc(got, func(r rune) bool { return r >= 0x7f }) >= 0 || !strings.Contains(got, `\u009b2J`) || !strings.Contains(got, `\ud83d\udc4d`) {
			t.Errorf("%s: %q", name, got)
		}
		var piped bytes.Buffer
		if err := print(newApp(nil, &piped, io.Discard).Out); err != nil || !strings.Contains(piped.String(), "א") || !strings.Contains(piped.String(), "語👍") {
			t.Errorf("%s, to a program: %q, %v", name, piped.String(), err)
		}
		var same, sent any
		if err := errors.Join(json.Unmarshal([]byte(got), &same), json.Unmarshal(piped.Bytes(), &sent)); err != nil || !reflect.DeepEqual(same, sent) {
			t.Errorf("%s: %v is not %v, %v", name, same, sent, err)
		}
	}
}

// TestALongNameMovesNoColumn: in the lists, what others are called takes no room from the rows beside it.
func TestALongNameMovesNoColumn(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 64), "coder"} {
		var requests, answers strings.Builder
		err := errors.Join(
			approvals.PrintApprovals(&requests, []protocol.Approval{{ID: "r1", Agent: "a", Tool: "shell", Description: "¶"}, {ID: "r2", Agent: name, Tool: protocol.ToolName(name), Description: "¶"}}, time.Now()),
			approvals.PrintRemembered(&answers, []protocol.RememberedAnswer{{ID: "m1", Tool: "shell", Text: "¶"}, {ID: "m2", Holder: name, Scope: approval.Agent, Tool: protocol.ToolName(name), Text: "¶"}}, time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{requests.String(), answers.String()} {
			if at := present.Width(strings.Split(strings.Split(table, "\n")[1], "¶")[0]); at > 110 || !strings.Contains(table, name[:5]) {
				t.Errorf("the last column of another row begins at %d:\n%s", at, table)
			}
		}
	}
}

// showsOthers are command lines at which a text that agents or repositories choose stands on the
// terminal: $Q and names made of it.
var showsOthers = map[string]string{
	"approvals allow":      `approvals allow req-$ID --operator-socket $O`,
	"approvals deny":       `approvals deny req-$ID --operator-socket $O`,
	"approvals dismiss":    `approvals dismiss req-$ID --operator-socket $O`,
	"approvals forget":     `approvals forget $ID --operator-socket $O`,
	"approvals list":       `approvals list --operator-socket $O`,
	"approvals remembered": `approvals remembered --operator-socket $O`,
	"approvals show":       `approvals show $WAITING --operator-socket $O`,
	"approve":              `approve --plain --operator-socket $O`,
	"audit export":         `audit export /tmp/$Q/$Q`,
	"audit query":          `audit query`,
	"audit show":           `audit show $CALL`,
	"audit tail":           `audit tail -n 40`,
	"audit verify":         `audit verify /tmp/$Q`,
	"audit replay":         `audit replay --config $Q`,
	"call":                 `call --socket $A $ID`,
	"config check":         `config check $Q`,
	"config diff":          `config diff $C $Q`,
	"config init":          `config init $Q/$Q`,
	"config show":          `config show --config $WS/sandgate.yaml`,
	"config trust":         `config trust --yes $Q`,
	"in-draft":             `in-draft --dir $Q $Q -- $Q`,
	"learn":                `learn -- $Q`,
	"log":                  `log`,
	"mcp wrap":             `mcp wrap --config $Q -- true`,
	"profile compile":      `profile compile $Q`,
	"profile diff":         `profile diff $Q $Q`,
	"profile explain":      `profile explain $Q`,
	"profile show":         `profile show $Q`,
	"quarantine drop":      `quarantine drop $Q`,
	"quarantine list":      `quarantine list`,
	"quarantine restore":   `quarantine restore $Q`,
	"quarantine show":      `quarantine show $ITEM`,
	"review show":          `review show`,
	"review keep":          `review keep $Q`,
	"review drop":          `review drop $Q`,
	"rules add":            `rules add --allow --shell "make all $Q" --operator-socket $O`,
	"rules list":           `rules list --operator-socket $O`,
	"rules remove":         `rules remove $ID --operator-socket $O`,
	"rules test":           `rules test $Q`,
	"rules try":            `rules try --allow --shell "rm" --operator-socket $O`,
	"run":                  `run --no-detect -- $Q`,
	"serve":                `serve --config $C --socket $A2 --operator-socket $O2`,
	"undo":                 `undo --dry-run`,
	"why":                  `why --operator-socket $O shell -- rm $Q`,
}

// showsOurs are the others, with what they show.
var showsOurs = map[string]string{
	"approvals":        "help",
	"approvals filter": "JSON",
	"audit":            "help",
	"bench":            "figures",
	"cache":            "workspaces and sizes",
	"cache clear":      "a workspace and a size",
	"completion":       "a script",
	"config":           "help",
	"config schema":    "JSON",
	"doctor":           "what the machine has",
	"git-sign":         "a signature, to git",
	"hook":             "the answer to a runtime",
	"learn-try":        "nothing: it writes files",
	"mcp serve":        "MCP",
	"profile":          "help",
	"put-back":         "what undo reads, and no person",
	"profile derive":   "what a person has configured",
	"profile list":     "what is shipped",
	"quarantine":       "help",
	"review":           "drafts, with what a person had run",
	"rules":            "help",
	"rules reload":     "numbers",
	"rules suggest":    "rules of what a person has answered many times: more than this test asks",
	"shell":            "what run does",
	"status":           "numbers, and paths of a person's",
	"version":          "a version",
}

// TestEveryCommandIsLookedAt: a new command is in showsOthers, or in showsOurs.
func TestEveryCommandIsLookedAt(t *testing.T) {
	left := maps.Clone(showsOthers)
	maps.Copy(left, showsOurs)
	var runnable func(c *cobra.Command) []*cobra.Command // hidden ones too
	runnable = func(c *cobra.Command) (all []*cobra.Command) {
		for _, sub := range c.Commands() {
			if all = append(all, runnable(sub)...); sub.Runnable() {
				all = append(all, sub)
			}
		}
		return all
	}
	for _, c := range runnable(root(newApp(nil, nil, nil))) {
		name := strings.TrimPrefix(c.CommandPath(), "sandgate ")
		if _, ok := left[name]; !ok {
			t.Errorf("sandgate %s: does a text of an agent's stand on the terminal? Add it to showsOthers, or to showsOurs with what it shows", name)
		}
		delete(left, name)
	}
	for name := range left {
		t.Errorf("there is no `sandgate %s`", name)
	}
}

// TestPageRowsOnATerminal: in tmux, at two widths, no row of any command begins with a text of
// others, which is longer than two rows, and each shows such a text.
func TestPageRowsOnATerminal(t *testing.T) {
	needsScreens(t)
	const letters = "Q語é"
	q := strings.Repeat("Q", 120) + strings.Repeat("語", 20) + strings.Repeat("é", 12)
	d := &day{serving: newServing(t, `
version: 1
sandbox: {paths: {workspace: {root: ws, mode: rw}}}
approval: {store: memory}
shell:
  default: {allowed: true, approval: false}
  rules:
    - {pattern: "rm", approval: true}
    - {pattern: "sh draft.sh", approval: false, review: true}
undo: {enabled: true}
`)}
	d.programBeside(t)
	agent := d.session("coder")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(d.ws+"/build.sh", "mkdir -p "+q+"/.vscode && echo '{}' > "+q+"/.vscode/tasks.json\n")
	write(d.ws+"/draft.sh", "echo good > draft-"+q+"\n")
	d.allowed(t, call(t.Context(), agent, "shell", map[string]any{"command": "sh build.sh"}))
	d.allowed(t, call(t.Context(), agent, "shell", map[string]any{"command": "echo lost > " + q + "/made; rm -f " + q}))
	write(d.ws+"/sandgate.yaml", "version: 1\nshell: {rules: [{pattern: "+q+", allowed: false}]}\n")
	call(t.Context(), agent, "shell", map[string]any{"command": "sh draft.sh"})
	call(t.Context(), agent, "shell", map[string]any{"command": "rm two-" + q})
	call(t.Context(), agent, "shell", map[string]any{"command": "rm " + q})
	operator, err := client.DialApprover(t.Context(), d.operator)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	waiting, remembered := "", false
	for limit := time.Now().Add(60 * time.Second); waiting == "" || !remembered; time.Sleep(50 * time.Millisecond) {
		list, err := operator.List(t.Context())
		if err != nil || time.Now().After(limit) {
			t.Fatal("the call does not wait ", err)
		}
		for _, one := range list {
			switch {
			case strings.Contains(one.Description, "rm two-"):
				if _, err := operator.Decide(t.Context(), protocol.ApprovalsDecide{ID: one.ID, Decision: protocol.Allow, Scope: approval.Session}); err != nil {
					t.Fatal(err)
				}
				remembered = true
			case strings.Contains(one.Description, "rm Q"):
				waiting = string(one.ID)
			}
		}
	}
	for name, value := range map[string]string{
		"Q": q, "O": d.operator, "A": d.agent, "C": d.dir + "/sandgate.yaml", "WS": d.ws, "O2": d.dir + "/o2", "A2": d.dir + "/a2", "STATE2": d.dir + "/state2", "ID": strings.Repeat("Q", 100),
		"WAITING": waiting, "CALL": firstOf(t, `"call_id": *"([^"]+)"`, "audit", "tail", "-n", "40", "--json"), "ITEM": firstOf(t, `"id": *"([^"]+)"`, "quarantine", "list", "--json"),
	} {
		t.Setenv(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(showsOthers)) { // what is added is listed
		line := showsOthers[name]
		for _, columns := range []int{80, 60} {
			t.Run(fmt.Sprintf("%s/%d", name, columns), func(t *testing.T) {
				before := ""
				if name == "serve" {
					before = "XDG_STATE_HOME=$STATE2 "
				}
				x := newScreenOf(t, d.ws, before+"sandgate "+line+"; echo; echo ended; exec cat", columns, 50)
				switch name {
				case "approve":
					x.see("an empty line denies")
				case "serve":
					x.see("sandgate: ready")
					other := *d.serving
					other.agent = os.Getenv("A2")
					<-call(t.Context(), other.session("coder"), "read_file", map[string]any{"path": q})
					x.see("read_file")
				default:
					x.see("ended")
				}
				shown := false
				for row := range strings.SplitSeq(x.tmux("capture-pane", "-p", "-S", "-500"), "\n") {
					shown = shown || strings.Contains(row, "QQQ")
					if begin := strings.TrimLeft(row, " "); begin != "" && strings.ContainsRune(letters, []rune(begin)[0]) {
						t.Errorf("a row begins with a text of others: %q", row)
					}
				}
				if !shown {
					t.Errorf("no text of others is there:\n%s", x.text())
				}
			})
		}
	}
}

// firstOf is the first match in what a command prints.
func firstOf(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	execute(newApp(strings.NewReader(""), &out, &errs), args)
	m := regexp.MustCompile(pattern).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("%v: no %s in %s %s", args, pattern, out.String(), errs.String())
	}
	return m[1]
}
