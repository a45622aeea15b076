package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
)

// decider is a Decider whose answers a test gives.
type decider struct {
	decide func(context.Context, approval.Call) (approval.Decision, error)
	check  func(approval.Call) approval.Verdict
	known  map[string]string
}

func (d decider) Decide(ctx context.Context, c approval.Call) (approval.Decision, error) {
	return d.decide(ctx, c)
}
func (d decider) Check(c approval.Call) (approval.Verdict, error) { return d.check(c), nil }
func (d decider) Recorded(id string) error {
	if id == "" {
		return errors.New("nothing")
	}
	return nil
}
func (d decider) Get(server, tool string) string { return d.known[server+"/"+tool] }
func (d decider) Put(server, tool, digest string) error {
	d.known[server+"/"+tool] = digest
	return nil
}

// between gives the asking end of a connection that d decides at.
func between(t testing.TB, d decider) *Asker {
	a, b := net.Pipe()
	go Serve(b, d)
	t.Cleanup(func() { a.Close() })
	return Ask(a)
}

// fill sets all of v that is data, with n counting what was set.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"n": json.Number("9007199254740993")}))
	case reflect.Interface, reflect.Func: // below, one by one
	default:
		panic(v.Type().String())
	}
}

// TestAllOfACallGoesOver: a field that is added to a call and does not go over fails here, and
// one that cannot has no JSON, so that every call is denied.
func TestAllOfACallGoesOver(t *testing.T) {
	var c approval.Call
	fill(reflect.ValueOf(&c).Elem(), new(int))
	var asked string
	c.Err = &approval.Blocked{Reason: "never", Rule: "r", Hint: "h"}
	c.Subject = "stays"
	c.Unseen = func() (any, string) { return "less", "sha256:less" }
	c.Revise = func(args json.RawMessage) (approval.Call, error) {
		if string(args) != `{"a":1}` {
			return approval.Call{}, errors.New("not these")
		}
		return approval.Call{Digest: "sha256:edit", Changed: true, Present: func(context.Context) (*approval.Presentation, error) {
			return nil, errors.New("not shown")
		}}, nil
	}
	c.Asked = func(id string) { asked = id }
	c.Present = func(context.Context) (*approval.Presentation, error) {
		return &approval.Presentation{Content: "shown"}, nil
	}
	c.Details = func() map[string]string { return map[string]string{"rule": "x"} }
	c.Boundary = func() string { return "all of it" }
	c.Within = func(then string) bool { return then == "all of it" }
	c.Reach.Left = func(p []approval.Pattern) int { return 10 - len(p) }
	c.Reach.Offers = func() []approval.Pattern { return []approval.Pattern{{Kind: approval.Host, Value: "*.example.org"}} }
	for _, in := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(c.Reach)} {
		for i := range in.NumField() {
			if in.Field(i).IsZero() {
				t.Fatalf("the test leaves %s out", in.Type().Field(i).Name)
			}
		}
	}

	var came approval.Call
	var late func(json.RawMessage) (approval.Call, error)
	a := between(t, decider{decide: func(ctx context.Context, got approval.Call) (approval.Decision, error) {
		came, late = got, got.Revise
		if n := got.Reach.Left([]approval.Pattern{{}, {}}); n != 8 {
			t.Errorf("left: %d", n)
		}
		if o := got.Reach.Offers(); !reflect.DeepEqual(o, c.Reach.Offers()) {
			t.Errorf("offers: %v", o)
		}
		if _, digest := got.Unseen(); digest != "sha256:less" {
			t.Errorf("unseen: %s", digest)
		}
		if _, err := got.Revise(json.RawMessage(`{}`)); err == nil || err.Error() != "not these" {
			t.Errorf("an edit that the tool does not take: %v", err)
		}
		edit, err := got.Revise(json.RawMessage(`{"a":1}`))
		if err != nil || edit.Digest != "sha256:edit" || !edit.Changed || edit.Details != nil {
			t.Errorf("an edit: %+v, %v", edit, err)
		} else if _, err := edit.Present(ctx); err == nil || err.Error() != "not shown" {
			t.Errorf("what an edit shows: %v", err)
		}
		if p, err := got.Present(ctx); err != nil || p.Content != "shown" {
			t.Errorf("presentation: %+v, %v", p, err)
		}
		if d := got.Details(); d["rule"] != "x" {
			t.Errorf("details: %v", d)
		}
		if then := got.Boundary(); then != "all of it" || !got.Within(then) || got.Within("less") {
			t.Errorf("boundary: %q, within it: %v, within less: %v", then, got.Within(then), got.Within("less"))
		}
		got.Asked("req-1")
		return approval.Decision{Action: approval.Approved, Digest: "sha256:1"}, nil
	}})
	if d, err := a.Decide(context.Background(), c); err != nil || d.Digest != "sha256:1" || asked != "req-1" {
		t.Fatalf("%+v, %v, asked %q", d, err, asked)
	}
	if !reflect.DeepEqual(came.Err, c.Err) {
		t.Errorf("the tool's refusal: %v", came.Err)
	}
	for _, x := range []*approval.Call{&c, &came} { // what is no data
		x.Err, x.Subject, x.Unseen, x.Revise, x.Asked, x.Present, x.Details, x.Reach.Left, x.Reach.Offers, x.Boundary, x.Within = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	}
	if !reflect.DeepEqual(came, c) {
		t.Errorf("came as\n%+v\nand was\n%+v", came, c)
	}
	// Once it is over nothing of it can be had.
	if _, err := late(json.RawMessage(`{"a":1}`)); err == nil {
		t.Error("a call that is over was edited")
	}
}

// TestNothingIsAllowedOverABrokenConnection: what cannot be asked is denied, and covers nothing.
func TestNothingIsAllowedOverABrokenConnection(t *testing.T) {
	a, b := net.Pipe()
	gone := make(chan approval.Call, 1)
	go Serve(b, decider{decide: func(ctx context.Context, c approval.Call) (approval.Decision, error) {
		gone <- c
		<-ctx.Done()
		return approval.Decision{Action: approval.Approved}, nil
	}})
	asker := Ask(a)
	ended := make(chan error)
	call := approval.Call{Unseen: func() (any, string) { return nil, "" }, Reach: approval.Reach{Left: func([]approval.Pattern) int { return 0 }}}
	go func() {
		_, err := asker.Decide(context.Background(), call)
		ended <- err
	}()
	c := <-gone
	b.Close()
	if err := <-ended; !errors.Is(err, errEnded) {
		t.Errorf("an answer of who is gone: %v", err)
	}
	if n := c.Reach.Left(nil); n == 0 {
		t.Error("a pattern covers a call that cannot be asked")
	}
	if _, digest := c.Unseen(); digest == "" {
		t.Error("what is permitted without being seen has no digest")
	}
	if v, err := asker.Check(call); err == nil || v.Effect != approval.Deny {
		t.Errorf("check: %+v, %v", v, err)
	}
	if asker.Get("m", "hi") == "" {
		t.Error("a tool whose definition cannot be asked for is a new one")
	}
}

// TestACancelledQuestionEnds, and what is no UTF-8 is not asked as something else.
func TestACancelledQuestionEnds(t *testing.T) {
	begun, ended := make(chan bool), make(chan error, 1)
	a := between(t, decider{known: map[string]string{}, decide: func(ctx context.Context, _ approval.Call) (approval.Decision, error) {
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return approval.Decision{}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-begun; cancel() }()
	if _, err := a.Decide(ctx, approval.Call{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-ended
	for _, name := range []string{"\xff", `\` + "\xff"} {
		_, err := a.Decide(context.Background(), approval.Call{Reach: approval.Reach{Elements: []approval.Element{{Name: name}}}})
		if err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := a.put(approval.Call{Reach: approval.Reach{Elements: []approval.Element{{Name: `\ufffd and ` + "\ufffd"}}}}, 0); err != nil {
		t.Errorf("what says \\ufffd: %v", err)
	}
	if a.Get("m", "hi") != "" || a.Put("m", "hi", "sha256:1") != nil || a.Get("m", "hi") != "sha256:1" {
		t.Error("a definition is not kept")
	}
	if a.Recorded("req-1") != nil || a.Recorded("") == nil {
		t.Error("what is recorded")
	}
}

// TestADraftIsDecidedAboutAlike: whatever people, rules and modes say about a call they say about
// the same call on a draft.
func TestADraftIsDecidedAboutAlike(t *testing.T) {
	words := rapid.SampledFrom([][]string{{"touch", "a"}, {"git", "push"}, {"make"}})
	tool := rapid.SampledFrom([]string{"shell", "network", "m_hi"})
	drawn := rapid.Custom(func(t *rapid.T) approval.Call {
		c := approval.Call{
			ToolName: tool.Draw(t, "tool"), Digest: "sha256:1", Agent: "a", Changed: rapid.Bool().Draw(t, "changed"),
			BatchID: rapid.SampledFrom([]string{"", "b"}).Draw(t, "batch"),
			Mode:    rapid.SampledFrom([]approval.Mode{"", approval.Strict, approval.Interactive}).Draw(t, "mode"),
		}
		line := words.Draw(t, "words")
		element := approval.Element{Kind: approval.ArgvPrefix, Words: line}
		c.Reach = approval.Reach{
			Elements: []approval.Element{element}, Same: strings.Join(line, " "), Tools: []string{"shell", "run"},
			Single: rapid.SampledFrom([]string{"", "by its name"}).Draw(t, "single"), Exact: rapid.SampledFrom([]string{"", "", "this one"}).Draw(t, "exact"),
		}
		if rapid.Bool().Draw(t, "has left") {
			c.Reach.Left = func(p []approval.Pattern) int {
				if slices.ContainsFunc(p, func(p approval.Pattern) bool { return p.Value == line[0] }) {
					return 0
				}
				return 1
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "blocked") == 0 {
			c.Err = &approval.Blocked{Reason: "never"}
		}
		if rapid.IntRange(0, 3).Draw(t, "asks") > 0 {
			c.Request = &approval.Request{ToolName: c.ToolName, Description: "d", Payload: map[string]any{"words": line, "n": 1 << 60}}
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		rules, err := approval.NewRules(approval.Rule{
			Effect: rapid.SampledFrom([]approval.Effect{approval.Allow, approval.Deny}).Draw(t, "effect"),
			Tool:   rapid.SampledFrom([]string{"net*", "m_hi", "nothing"}).Draw(t, "rule"),
		})
		if err != nil {
			t.Fatal(err)
		}
		c := approval.NewController(approval.Options{
			Mode:  rapid.SampledFrom([]approval.Mode{"", approval.ApproveAll}).Draw(t, "of all"),
			Rules: rules, DenyCache: time.Hour,
		})
		for range rapid.IntRange(0, 4).Draw(t, "answers") {
			call := drawn.Draw(t, "answered")
			var later *approval.DeferredError
			if _, err := c.Defer(context.Background(), call); !errors.As(err, &later) {
				continue
			}
			a := approval.Answer{
				Allow: rapid.Bool().Draw(t, "allow"), Approver: "p",
				Scope:  rapid.SampledFrom([]approval.Scope{approval.Once, approval.Session, approval.Agent}).Draw(t, "scope"),
				Reject: rapid.SampledFrom([]approval.RejectMode{approval.RejectSoft, approval.RejectHard}).Draw(t, "reject"),
			}
			if a.Scope != approval.Once {
				a.Pattern = rapid.SampledFrom([]*approval.Pattern{nil, {Kind: approval.WholeTool, Value: call.ToolName}, {Kind: approval.ArgvPrefix, Value: call.Reach.Elements[0].Words[0]}}).Draw(t, "pattern")
			}
			_, _ = c.Answer(later.ID, a) // what cannot be remembered is left waiting
		}
		a, b := net.Pipe()
		defer a.Close()
		go Serve(b, decider{check: c.Check})
		onDraft := approval.NewController(approval.Options{Outer: Ask(a)})
		for range 3 {
			call := drawn.Draw(t, "call")
			if want, got := c.Check(call), onDraft.Check(call); got != want {
				t.Fatalf("%+v\non a draft: %+v\notherwise:  %+v", call, got, want)
			}
		}
	})
}
