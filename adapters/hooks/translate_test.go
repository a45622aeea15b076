package hooks

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected outcomes")

// TestTranslations holds each recorded input against what it is said to stand for. A file
// has lines that a runtime writes ("> ...") and after each what becomes of it ("< ...").
func TestTranslations(t *testing.T) {
	for name, runtime := range Runtimes() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txt")
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for line := range strings.Lines(string(recorded)) {
				if strings.HasPrefix(line, "<") {
					continue
				}
				out.WriteString(line)
				if input, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> "); ok {
					for _, outcome := range outcomes(runtime, input) {
						fmt.Fprintf(&out, "< %s\n", outcome)
					}
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if out.String() != string(recorded) {
				t.Errorf("got\n%s\nwant\n%s", out.String(), recorded)
			}
		})
	}
}

// outcomes is what becomes of an input, before the supervisor is asked.
func outcomes(r *Runtime, input string) []string {
	e, err := parseEvent([]byte(input))
	if err != nil {
		return []string{"broken: " + err.Error()}
	}
	row, known := r.tools[e.Tool]
	requests := []request{foreign(r.Name, e)}
	switch {
	case e.Tool == "":
		return []string{"broken: no tool"}
	case row.own:
		return []string{"the runtime's own"}
	case row.command != "":
		line, err := e.Input.text(row.command)
		if err == nil && strings.ContainsRune(line, 0) {
			err = errors.New("a NUL byte")
		}
		if err != nil {
			return []string{"refused: " + err.Error()}
		}
		return []string{fmt.Sprintf("command %q in %s", line, e.Cwd)}
	case known:
		if requests, err = row.translate(e); err != nil {
			return []string{"refused: " + err.Error()}
		}
	}
	var all []string
	for _, r := range requests {
		args, err := json.Marshal(r.Args)
		if err != nil {
			return []string{"broken: " + err.Error()}
		}
		all = append(all, fmt.Sprintf("%s %s", r.Tool, args))
	}
	return all
}

// TestAnswers is what each runtime is told. What a runtime does not know is a refusal.
func TestAnswers(t *testing.T) {
	answers := []struct {
		name string
		Answer
	}{
		{"deny", Answer{Reason: "no\x1b[2J", Hint: "use <that>"}},
		{"deny and stop", Answer{Reason: "no", Stop: true}},
		{"deny without a word", Answer{}},
		{"ask", Answer{Verdict: Ask, Reason: "a person must approve this: Write a.txt"}},
		{"allow", Answer{Verdict: Allow}},
		{"allow other input", Answer{Verdict: Allow, Input: json.RawMessage(`{"command":"'a' && b","timeout":5}`), Note: "wait"}},
		{"abstain", Answer{Verdict: Abstain}},
		{"broken", Answer{Broken: true, Reason: "no supervisor", Hint: "start one"}},
		{"broken, and the user asked", Answer{Broken: true, Verdict: Ask, Reason: "no supervisor"}},
	}
	var out strings.Builder
	for _, name := range Names() {
		for _, a := range answers {
			o := Runtimes()[name].Encode(a.Answer)
			fmt.Fprintf(&out, "%s: %s\n  exit %d\n", name, a.name, o.Exit)
			for line := range strings.Lines(string(o.Stdout)) {
				fmt.Fprintf(&out, "  out %s", line)
			}
			for line := range strings.Lines(string(o.Stderr)) {
				fmt.Fprintf(&out, "  err %s", line)
			}
			// An empty answer, or a status that is neither, lets the call through.
			if o.Exit != 0 && o.Exit != ExitBlocks || o.Exit == 0 && !json.Valid(o.Stdout) || o.Exit == ExitBlocks && len(o.Stderr) == 0 {
				t.Errorf("%s: %s: %+v", name, a.name, o)
			}
		}
	}
	const file = "testdata/answers.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n%v", out.String(), want, err)
	}
}

// FuzzInput: whatever a runtime or a model writes, nothing panics, and what is taken can
// be read in one way: no path that is relative or climbs, and no member twice.
func FuzzInput(f *testing.F) {
	for name := range Runtimes() {
		recorded, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(recorded)) {
			if input, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> "); ok {
				f.Add([]byte(input))
			}
		}
	}
	runtimes := Runtimes()
	f.Fuzz(func(t *testing.T, input []byte) {
		e, err := parseEvent(input)
		if err != nil || e.Tool == "" {
			return
		}
		for _, r := range runtimes {
			row := r.tools[e.Tool]
			if row.translate == nil {
				continue
			}
			requests, err := row.translate(e)
			if err == nil && len(requests) == 0 {
				t.Fatalf("%s stands for nothing", e.Tool)
			}
			for _, q := range requests {
				p, _ := q.Args["path"].(string)
				if !filepath.IsAbs(p) || strings.Contains(p+"/", "/../") || hasControl(p) {
					t.Fatalf("%s: path %q", e.Tool, p)
				}
			}
		}
		again, err := json.Marshal(e.Input)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeTwice(again, input); err != nil {
			t.Fatal(err)
		}
	})
}

// decodeTwice compares what is kept of the tool's input with a plain reading of it, where
// the last of two equal members would win.
func decodeTwice(kept, input []byte) error {
	var plain struct {
		Input map[string]any `json:"tool_input"`
	}
	var ours map[string]any
	if err := errors.Join(json.Unmarshal(kept, &ours), json.Unmarshal(input, &plain)); err != nil {
		return err
	}
	if fmt.Sprint(ours) != fmt.Sprint(plain.Input) {
		return fmt.Errorf("%v is kept of %v", ours, plain.Input)
	}
	return nil
}

// TestTables: each row says one thing of its tool.
func TestTables(t *testing.T) {
	for name, r := range Runtimes() {
		for tool, row := range r.tools {
			says := 0
			for _, x := range []bool{row.own, row.command != "", row.translate != nil} {
				if x {
					says++
				}
			}
			if says != 1 || row.opaque && row.translate == nil {
				t.Errorf("%s: %s: %+v", name, tool, row)
			}
		}
	}
}
