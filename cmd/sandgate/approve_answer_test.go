package main

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// answers runs the plain mode with lines of input while one request waits, and says
// what became of the request's call.
func (b *cliBench) answers(lines ...string) (out string, status int, result string) {
	b.t.Helper()
	type end struct {
		status int
		result string
	}
	done := make(chan end, 1)
	waiting := b.nextRequest()
	go func() {
		status, out, errs := b.call("ask", "words=go test ./x")
		done <- end{status, out + errs}
	}()
	<-waiting
	_, out, _ = b.run(strings.Join(lines, "\n")+"\n", "approve", "--plain", "--operator-socket", b.operator)
	e := <-done
	return out, e.status, e.result
}

func TestPlainSeesBeforeItAnswers(t *testing.T) {
	b := newCLIBench(t)
	for name, c := range map[string]struct {
		lines  []string
		want   []string // on the screen, in order
		status int
		result string
	}{
		"help":             {[]string{"?", "y"}, []string{"r 1 s VALUE", "(an empty line denies)", "approved (once)"}, 0, `done {"words":"go test ./x"}`},
		"full text":        {[]string{"v", "y"}, []string{"(an empty line denies)", "ask: do<U+000A>it", "approved (once)"}, 0, "done"},
		"arguments":        {[]string{"e", "N"}, []string{`its arguments: {"words":"go test ./x"}`, "denied"}, cli.ExitDenied, "denied"},
		"edit":             {[]string{`e {"words": "ls"}`, "y"}, []string{"with your arguments, the request is", `"words": "ls"`, "approved (once)"}, 0, `done {"words":"ls"}`},
		"edit is for once": {[]string{`e {"words": "ls"}`, "s", "y"}, []string{"Edited arguments can only be allowed once", "approved (once)"}, 0, `done {"words":"ls"}`},
		"edit, then no":    {[]string{`e {"words": "ls"}`, "n not this"}, []string{"denied"}, cli.ExitDenied, "denied"},
		"no JSON":          {[]string{"e {", "N"}, []string{"not JSON", "denied"}, cli.ExitDenied, "denied"},
		"edit refused":     {[]string{`e {"bad": "a\u001b[2J\nb"}`, "N"}, []string{"bad is not allowed: a<U+001B>[2J<U+000A>b", "denied"}, cli.ExitDenied, "denied"},
		"patterns":         {[]string{"r", "N"}, []string{"1  exactly this call", `2  every command that begins with "go test ./x"`, "r NUMBER s, a or g", "denied"}, cli.ExitDenied, "denied"},
		"pattern refused":  {[]string{"r 2 s", "n", "N"}, []string{"have changed, until this session ends: every command that begins with", "y allows and remembers that", "not answered", "denied"}, cli.ExitDenied, "denied"},
		"odd pattern":      {[]string{"r 9 s", "r 2 x", "r 2 s go test ./y", "N"}, []string{"r NUMBER s, a or g", "say for whom: s, a or g", "invalid_params", "denied"}, cli.ExitDenied, "denied"},
		"pattern after an edit": {[]string{`e {"words": "ls"}`, "r 1 s", "N"}, []string{"Edited arguments can only be allowed once", "denied"}, cli.ExitDenied,
			"denied"},
	} {
		t.Run(name, func(t *testing.T) {
			out, status, result := b.answers(c.lines...)
			rest := out
			for _, want := range c.want {
				i := strings.Index(rest, want)
				if i < 0 {
					t.Fatalf("no %q in order:\n%s", want, out)
				}
				rest = rest[i+len(want):]
			}
			if status != c.status || !strings.Contains(result, c.result) {
				t.Errorf("status %d, %q; want %d, %q", status, result, c.status, c.result)
			}
		})
	}
}

// TestPlainRemembersAPattern, which allows a call that it covers and no other, until
// it is forgotten.
func TestPlainRemembersAPattern(t *testing.T) {
	b := newCLIBench(t)
	if status, out, _ := b.approvals("remembered"); status != 0 || out != "no remembered answers\n" {
		t.Errorf("%d %q", status, out)
	}
	out, status, _ := b.answers("r 2 g go test", "y")
	if status != cli.ExitOK || !strings.Contains(out, `every command that begins with "go test"`) {
		t.Fatalf("%d\n%s", status, out)
	}
	if status, out, _ := b.call("ask", "words=go test ./other"); status != cli.ExitOK || !strings.Contains(out, "done") {
		t.Errorf("a call that it covers: %d %q", status, out)
	}
	status, out, _ = b.approvals("remembered")
	for _, want := range []string{"allow", "global", "never", `every command that begins with "go test"`, "uid "} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("remembered: %d, no %q in %q", status, want, out)
		}
	}
	status, out, _ = b.approvals("remembered", "--json")
	var list []protocol.RememberedAnswer
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || status != 0 || list[0].Hits != 1 {
		t.Fatalf("%d %q %v", status, out, err)
	}
	if status, out, errs := b.approvals("forget", list[0].ID); status != 0 || out != list[0].ID+" forgotten\n" {
		t.Errorf("forget: %d %q %q", status, out, errs)
	}
	if status, _, errs := b.approvals("forget", list[0].ID); status == 0 || !strings.Contains(errs, "remembered as") {
		t.Errorf("forget twice: %d %q", status, errs)
	}
	if _, status, _ := b.answers("N"); status != cli.ExitDenied {
		t.Errorf("after that it must be asked again: %d", status)
	}
	if out, status, _ := b.answers("r 1 g", "N"); status != cli.ExitDenied || !strings.Contains(out, "until you remove it: exactly this call") {
		t.Errorf("a denial to remember: %d\n%s", status, out)
	}
	if status, _, errs := b.call("ask", "words=go test ./x"); status != cli.ExitDenied || !strings.Contains(errs, "denied") {
		t.Errorf("a denial that is remembered: %d %q", status, errs)
	}
}

func TestApprovalsDecideFlags(t *testing.T) {
	b := newCLIBench(t)
	ids, results := b.asks(6)
	for _, c := range []struct {
		args   []string
		out    string
		status int // of the call
	}{
		{[]string{"allow", ids[0], "--args", `{"words":"ls"}`}, "approved", cli.ExitOK},
		{[]string{"allow", ids[1], "--scope", "session", "--pattern", "argv_prefix=go test"}, "approved ask (session)", cli.ExitOK},
		{[]string{"deny", ids[2], "--explain", "--feedback", "why?"}, "denied", cli.ExitDenied},
		{[]string{"deny", ids[3], "--interrupt"}, "denied", cli.ExitDenied},
	} {
		if status, out, errs := b.approvals(c.args...); status != 0 || !strings.Contains(out, c.out) {
			t.Errorf("%q: %d %q %q", c.args, status, out, errs)
		}
		if got := <-results; got != c.status {
			t.Errorf("%q: the call ends with %d, want %d", c.args, got, c.status)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"allow", ids[4], ids[5], "--args", "{}"}, "take exactly one ID"},
		{[]string{"allow", ids[4], "--args", "{"}, "not JSON"},
		{[]string{"allow", ids[4], "--pattern", "go test"}, "KIND=VALUE"},
		{[]string{"allow", ids[4], "--pattern", "argv_prefix=go test"}, "scope"},
		{[]string{"deny", ids[4], "--soft", "--explain"}, "none of the others can be"},
	} {
		if status, _, errs := b.approvals(c.args...); status != cli.ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %q, want %q", c.args, status, errs, c.want)
		}
	}
	if status, _, errs := b.approvals("allow", ids[4], "--args", `{"bad":"a\u001b[2J\nsandgate: b"}`); status == 0 || !strings.Contains(errs, "bad is not allowed: a<U+001B>[2J\n  sandgate: b\n") {
		t.Errorf("arguments that are not allowed: %d %q", status, errs)
	}
	if status, out, _ := b.approvals("show", ids[4], "--markdown"); status != 0 || !strings.HasPrefix(out, "```text\n  writes ") || !strings.Contains(out, "\nask: do") {
		t.Errorf("markdown: %d %q", status, out)
	}
	if status, out, _ := b.approvals("show", ids[4], "--full"); status != 0 || !strings.Contains(out, `pattern     every command that begins with "go test ./x": argv_prefix=go test ./x`) {
		t.Errorf("show: %d %q", status, out)
	}
	b.approvals("deny", ids[4], ids[5])
	<-results
	<-results
}

// TestPlainHasTheSameWords: the lines of the plain mode have the keys and words of the
// screens, and mean the same.
func TestPlainHasTheSameWords(t *testing.T) {
	help := approve.PlainHelp()
	for _, c := range present.Choices() {
		if !strings.Contains(help, c.Words+": "+c.Title) || !strings.Contains(help, "\n  "+c.Key+" ") && !strings.HasPrefix(help, "  "+c.Key+" ") {
			t.Errorf("no %s %s in\n%s", c.Key, c.Words, help)
		}
		want, got := c.Decide("r", ""), approve.AnswerTo("r", c.Key)
		got.Mode, got.Scope = cmp.Or(got.Mode, want.Mode), cmp.Or(got.Scope, want.Scope) // those of an answer that says none
		if want.Mode == "" || want.Mode == approval.RejectHard {
			got.Mode, want.Mode = "", ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, and on the screens %+v", c.Key, got, want)
		}
	}
	for _, s := range present.Scopes() {
		if !strings.Contains(help, present.RememberKey+" 1 "+s.Key+" ") || !strings.Contains(help, s.Words) {
			t.Errorf("no %s %s in\n%s", s.Key, s.Words, help)
		}
	}
}
