package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/ui/present"
)

// TestRowsBreakLinesThemselves: however a text comes to a terminal, in whatever parts and over
// whichever of the two streams, no row is wider than the terminal, each that does not begin a line of
// the text begins with the mark, and nothing of the text is lost.
func TestRowsBreakLinesThemselves(t *testing.T) {
	const seeds = 300
	pieces := []string{"x", "row ", "語", "é", "é", "\n", "\t", "      ", "👍🏽", "\x1b[8m", "\x1b[2K", red, plain, "\r\n", "\ra", "\u202e", "q", "12:00:00 ✓ shell approved"}
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
			to := a.out
			if r.IntN(2) == 0 {
				to = a.err
			}
			if n, err := fmt.Fprint(to, part); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		fmt.Fprintln(a.out, "\n¶")
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
	for _, code := range ourCodes {
		text = strings.ReplaceAll(text, code, "")
	}
	return text
}

// squeezed is a text without blanks: a tab is as many as there is room for.
func squeezed(text string) string { return strings.ReplaceAll(text, " ", "") }

// whatGoesBare are the functions that write to a terminal as it is, and why no text of an agent's
// gets to a row of ours there.
var whatGoesBare = map[string]string{
	"encoder":               "JSON: each text of others is in a string, and other programs read it",
	"root":                  "help",
	"approve":               "the plain mode breaks lines itself",
	"approveOnScreen":       "the screen breaks lines itself",
	"printEntry":            "JSON",
	"newApprovalsFilterCmd": "JSON",
	"complete":              "a script, which is ours",
	"newConfigSchemaCmd":    "JSON, which is ours",
	"openConsole":           "a program has the terminal",
	"programsOutput":        "a program has the terminal",
	"filtered":              "a program's output, behind the filter",
	"inDraft":               "a sandgate below, whose rows these are",
	"mcpServe":              "MCP",
	"mcpWrap":               "MCP",
	"changeSettings":        "JSON, for a file",
	"announceHTTP":          "a link, which is ours, and whole to be clicked",
	"printLink":             "a link, which is ours, and whole to be clicked",
}

// TestOnlyTheseGoBare: no command writes around the rows but those that are named here.
func TestOnlyTheseGoBare(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
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
					if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "bare" {
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
		t.Errorf("%s does not call bare", name)
	}
}
