package approval

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestSimple(t *testing.T) {
	args := map[string]any{"path": "a\x1b.txt", "content": "secret", "mode": 420}
	upper := func(a map[string]any) string { return strings.ToUpper(a["content"].(string)) }
	for _, tt := range []struct {
		name        string
		options     []Option
		description string
		payload     map[string]any
		group       string
	}{
		{"plain", nil, `write_file(content="secret", mode=420, path="a\u001b.txt")`, args, ""},
		{"exclude", []Option{Exclude("content"), Exclude("mode", "absent")}, `write_file(path="a\u001b.txt")`, map[string]any{"path": "a\x1b.txt"}, ""},
		{"describe", []Option{Describe(upper)}, "SECRET", args, ""},
		{"payload", []Option{Payload(func(map[string]any) map[string]any { return map[string]any{"sandbox": "data"} }), Exclude("path")}, `write_file(content="secret", mode=420)`, map[string]any{"sandbox": "data"}, ""},
		{"group", []Option{Group(upper), Exclude("path", "mode", "content")}, "write_file()", map[string]any{}, "SECRET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(args)
			r := Simple("write_file", args, tt.options...)
			if r.ToolName != "write_file" || r.Description != tt.description || !reflect.DeepEqual(r.Payload, tt.payload) || r.GroupID != tt.group {
				t.Errorf("%+v", r)
			}
			if !reflect.DeepEqual(args, before) {
				t.Errorf("the arguments changed: %v", args)
			}
		})
	}
}

func TestDescriptionIsOneShortLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := describe(rapid.String().Draw(t, "tool"), rapid.MapOf(rapid.String(), rapid.String().AsAny()).Draw(t, "args"))
		if strings.Contains(d, "\n") || Escape(d) != d {
			t.Fatalf("%q", d)
		}
		if len(d) > maxDescription+40 {
			t.Fatalf("%d bytes: %q", len(d), d)
		}
	})
	if d := describe("f", map[string]any{"x": strings.Repeat("y", 300)}); !strings.HasSuffix(d, " more bytes)") {
		t.Errorf("%q does not say that it was cut", d)
	}
	if d := describe("f", map[string]any{"x": strings.Repeat("y", 193) + "א" + strings.Repeat("y", 30)}); Escape(d) != d || !strings.HasSuffix(d, " more bytes)") {
		t.Errorf("%q", d)
	}
	if d := describe("f", map[string]any{"x": func() {}}); d != "f(x=<json: unsupported type: func()>)" {
		t.Errorf("%q", d)
	}
}

// blockedTool is Aware by itself.
type blockedTool struct{ Tool }

func (blockedTool) CheckApproval(Context) (*Request, error) {
	return nil, &Blocked{Reason: "never"}
}

func TestRunDecidesFirst(t *testing.T) {
	ran := 0
	tool := NewTool("count", func(context.Context, map[string]any) (any, error) { ran++; return ran, nil })
	run := func(mode Mode, t Tool) error {
		_, err := NewController(Options{Mode: mode}).Run(context.Background(), t, nil, Call{})
		return err
	}
	var denied *DeniedError
	for name, tt := range map[string]struct {
		mode Mode
		tool Tool
		code Code // "" where it runs
	}{
		"a tool that knows nothing of approval asks":  {Strict, tool, CodeDenied},
		"and runs when approved":                      {ApproveAll, tool, ""},
		"required":                                    {Strict, Require(tool), CodeDenied},
		"required and approved":                       {ApproveAll, Require(tool), ""},
		"blocked":                                     {ApproveAll, blockedTool{tool}, CodeBlocked},
		"requiring does not hide the tool's own word": {ApproveAll, blockedTool{Require(tool)}, CodeBlocked},
	} {
		before := ran
		err := run(tt.mode, tt.tool)
		if tt.code == "" {
			if err != nil || ran != before+1 {
				t.Errorf("%s: %v, ran %d times", name, err, ran-before)
			}
			continue
		}
		if !errors.As(err, &denied) || denied.Code != tt.code || ran != before {
			t.Errorf("%s: %v, ran %d times", name, err, ran-before)
		}
	}
}

func TestRunRunsWhatWasShown(t *testing.T) {
	bubble(func(t *testing.T) {
		var got map[string]any
		tool := NewTool("run", func(_ context.Context, args map[string]any) (any, error) { got = args; return nil, nil })
		args := map[string]any{"argv": []string{"ls"}, "env": map[string]any{"A": "1"}, "n": nil, "list": []any{nil, "x"}}
		want := cloneArgs(args)
		c := NewController(Options{})
		done := make(chan error, 1)
		go func() {
			_, err := c.Run(t.Context(), tool, args, Call{})
			done <- err
		}()
		synctest.Wait()
		p := onlyPending(t, c)
		args["argv"].([]string)[0], args["env"].(map[string]any)["A"], args["extra"] = "rm", "2", true
		p.Payload["argv"].([]string)[0] = "also rm"
		mustAnswer(t, c, p.ID, Answer{Allow: true})
		if err := <-done; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ran with %v (%v), shown was %v", got, err, want)
		}
		if p.Digest != digest(want) || p.Digest == "" {
			t.Errorf("digest %q", p.Digest)
		}
	})(t)
}
