package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// TestARefusedPathIsOneQuestion: what a call was refused is asked about by name while it
// waits, and a yes runs it once more with that and nothing besides. A directory is all that
// lies below it, and the question says so.
func TestARefusedPathIsOneQuestion(t *testing.T) {
	outside := confinetest.Workspace(t)
	own, theirs := filepath.Join(outside, "own"), filepath.Join(confinetest.Workspace(t), "theirs")
	replaceFile(t, theirs+"/sub/x", "x")
	for name, text := range map[string]string{"a": "content a\n", "b": "content b\n", "own/x": "ours\n", ".env": "hidden\n"} {
		replaceFile(t, outside+"/"+name, text)
	}
	for _, x := range []struct {
		name, command, asks, out string
		status                   int
	}{
		{"a file outside is read", "cat " + outside + "/a", "read " + outside + "/a", "content a\n", 0},
		{"one outside is changed", "cp old " + outside + "/b && echo done", "change " + outside + "/b", "done\n", 0},
		{"a protected name", "cp old .vscode/settings.json && echo done", "change WS/.vscode/settings.json, and everything else", "done\n", 0},
		{"a new protected file", "cp old .vscode/new && echo done", "change WS/.vscode, and all below it, and everything else", "done\n", 0},
		{"a new file outside", "cp old " + theirs + "/new && echo done", "change " + theirs + ", and all below it: ", "done\n", 0},
		{"a directory outside", "ls " + theirs + "/sub", "read " + theirs + "/sub, and all below it: ", "x\n", 0},
		{"a root that asks before reads", "printf 'su%sinner\\n' b/ | xargs cat", "read WS/sub, and all below it: ", "inner\n", 0},
		{"and is not written by that", "d=$(printf 'su%s' b); cat $d/inner || exit 3; cp old $d/inner || cat $d/inner", "read WS/sub", "inner\ninner\n", 0},
		{"and nothing besides", "cat " + outside + "/a; cat " + outside + "/b", "read " + outside + "/a|read " + outside + "/b", "content a\nold content\n", 0},
		{"sandgate's own", "cat " + own + "/x", "", "", 1},
		{"hidden", "cat " + outside + "/.env", "", "", 1},
		{"what this user cannot read", "cat /nowhere/at/all", "", "", 1},
		{"what succeeded", "cat " + outside + "/a || true", "", "", 0},
	} {
		for _, allow := range []bool{true, false} {
			f := newFixture(t, setup{writes: true, fallback: &shell.Default{Allowed: true, Approval: true, Confined: true}, asked: []string{"sub"}, profile: func(p *sandboxprofile.Profile) {
				p.Protect, p.Hide = append(p.Protect, ".vscode"), append(p.Hide, ".env")
			}})
			populate(t, f.ws)
			replaceFile(t, f.ws+"/.vscode/settings.json", "theirs\n")
			f.cfg.Own = []string{own}
			os.Remove(theirs + "/new") // of the round before
			var asked []string
			t.Cleanup(f.approvals.Attach())
			f.answer(t, func(p approval.Pending) {
				if p.ToolName == "path" {
					asked = append(asked, p.Description)
				}
				if a := (approval.Answer{Allow: true, Approver: "test"}); allow || p.ToolName != "path" {
					f.mustAnswer(t, p, a)
				} else {
					f.mustAnswer(t, p, approval.Answer{Approver: "test", Reject: approval.RejectSoft})
				}
			})
			r, e := f.call(context.Background(), "shell", command(x.command))
			want := strings.Split(strings.ReplaceAll(x.asks, "WS", f.ws), "|")
			if x.asks == "" {
				want = nil
			}
			if !allow && len(want) > 1 {
				want = want[:1] // a no ends it
			}
			if e != nil || len(asked) != len(want) {
				t.Errorf("%s: %v, asked %q, want %q: %q, %+v", x.name, e, asked, want, textOf(r), r.Violations)
				continue
			}
			for i := range want {
				if !strings.HasPrefix(asked[i], "Run again, and let it "+want[i]) {
					t.Errorf("%s: asked %q, want %q", x.name, asked[i], want[i])
				}
			}
			var out strings.Builder
			for _, c := range r.Content {
				if c.Stream == protocol.Stdout {
					out.WriteString(c.Text)
				}
			}
			ran := strings.Contains(strings.Join(r.Warnings, " "), "second run")
			if allow && (out.String() != x.out || r.ExitCode != x.status || ran != (len(want) > 0)) {
				t.Errorf("%s, allowed: status %d, %q, %q", x.name, r.ExitCode, out.String(), r.Warnings)
			}
			if !allow && len(want) > 0 && (r.ExitCode == 0 || ran || len(r.Violations) == 0) {
				t.Errorf("%s, denied: status %d, %q, %+v", x.name, r.ExitCode, r.Warnings, r.Violations)
			}
			answers := 0
			for entry, err := range audit.Query(f.logPath, audit.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if entry.Kind == audit.KindAnswer && entry.Tool == "path" {
					answers++
				}
			}
			if answers != len(want) {
				t.Errorf("%s: %d answers in the log, want %d", x.name, answers, len(want))
			}
		}
	}
}

// TestAPathIsNeverAWholeTool: no answer to a question about a path covers another path. The
// same path again needs no second answer, and the log has who gave the first.
func TestAPathIsNeverAWholeTool(t *testing.T) {
	outside, other := confinetest.Workspace(t), confinetest.Workspace(t)
	replaceFile(t, outside+"/x", "x\n")
	replaceFile(t, other+"/y", "y\n")
	f := newFixture(t, setup{})
	t.Cleanup(f.approvals.Attach())
	var asked []string
	f.answer(t, func(p approval.Pending) {
		asked = append(asked, p.Description)
		a := approval.Answer{Allow: true, Approver: "test", Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.WholeTool, Value: "path"}}
		var invalid *approval.InvalidAnswerError
		if _, err := f.approvals.Answer(p.ID, a); !errors.As(err, &invalid) || invalid.Field != "pattern" {
			t.Errorf("an answer for every path: %v, want the pattern refused", err)
		}
		a.Pattern = nil
		f.mustAnswer(t, p, a)
	})
	for i, x := range []struct{ file, out string }{{outside + "/x", "x\n"}, {outside + "/x", "x\n"}, {other + "/y", "y\n"}} {
		want := []int{1, 1, 2}[i]
		if r, e := f.call(context.Background(), "shell", command("cat "+x.file)); e != nil || !strings.Contains(textOf(r), x.out) || len(asked) != want {
			t.Errorf("%s: %v, %q, asked %q", x.file, e, textOf(r), asked)
		}
	}
	if answers := f.entries(t, audit.KindAnswer); len(answers) != 3 || !strings.Contains(answers[1], "remembered_allow") || !strings.Contains(answers[1], `"approver":"test"`) {
		t.Errorf("the log: %q", answers)
	}
}

// TestAHardNoToAQuestionOnTheWayEndsTheBatch: a hard denial of a path or a host that a call
// ran into ends what comes after it in its batch, and the agent is told so, with the words
// of the person; a soft one leaves the rest.
func TestAHardNoToAQuestionOnTheWayEndsTheBatch(t *testing.T) {
	outside := confinetest.Workspace(t)
	replaceFile(t, outside+"/x", "x\n")
	for tool, first := range map[string]form{"path": line("cat " + outside + "/x"), "network": argv("python3", "fetch.py", "http://asked.example.com/")} {
		for name, a := range map[string]approval.Answer{
			"hard": {Feedback: "STOP"}, "interrupting": {Reject: approval.RejectSoft, Interrupt: true, Feedback: "STOP"}, "soft": {Reject: approval.RejectSoft},
		} {
			f := newNetworkFixture(t, true, "allowed.example.com")
			t.Cleanup(f.approvals.Attach())
			asked := 0
			f.answer(t, func(p approval.Pending) {
				yes := approval.Answer{Allow: true, Approver: "test"}
				if p.ToolName == tool {
					asked++
					yes = a
					yes.Approver = "test"
				}
				f.mustAnswer(t, p, yes)
			})
			b := protocol.ToolsBatch{SessionID: f.session, GroupID: "turn", Calls: []protocol.BatchCall{
				{CallID: "c0", Tool: protocol.ToolName(first.tool), Args: json.RawMessage(first.args)},
				{CallID: "c1", Tool: "shell", Args: json.RawMessage(command("echo ran >> order"))},
			}}
			got := f.batch(b)
			if asked != 1 {
				t.Errorf("%s, %s: asked %d times", tool, name, asked)
			}
			if name == "soft" {
				if f.order(t) != "ran" || got[0].Error != nil || got[1].Error != nil {
					t.Errorf("%s, %s: ran %q, %v, %v", tool, name, f.order(t), got[0].Error, got[1].Error)
				}
				continue
			}
			if f.order(t) != "" {
				t.Errorf("%s, %s: the next call ran", tool, name)
			}
			for i, o := range got {
				if e := o.Error; e == nil || e.Code != protocol.CodeDenied || e.Decision == nil || e.Decision.Interrupt != a.Interrupt || e.Decision.Feedback != "STOP" {
					t.Errorf("%s, %s, call %d: %+v", tool, name, i, e)
				}
			}
			if e := got[0].Error; e == nil || e.HintText != "STOP" || e.Result == nil {
				t.Errorf("%s, %s: the agent is told %+v", tool, name, e)
			}
		}
	}
}

// networked is the tool shell whose lines that name the network have it.
type networked struct{ *shell.Tool }

func (n networked) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := n.Tool.Plan(c)
	if strings.Contains(c.String("command"), "network") {
		host := map[bool]string{true: "example.org", false: "example.com"}[strings.Contains(c.String("command"), "org")]
		p.Plan.Profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{host}}}
	}
	if strings.Contains(c.String("command"), "definition") {
		p.Definition = "another"
	}
	if strings.Contains(c.String("command"), "directory") { // as a changed configuration gives it
		p.Plan.Profile.Paths = maps.Clone(p.Plan.Profile.Paths)
		p.Plan.Profile.Paths["/var/log"] = sandboxprofile.Read
	}
	return p, err
}

// TestASecondRunIsWhatWasShown: nobody was asked about the first run, so what the second one
// starts is shown with the question, stays as it is while it runs, and is refused if it has
// become another program by then. What is remembered is for that content and that network, and for
// no more directories than the call had then.
func TestASecondRunIsWhatWasShown(t *testing.T) {
	outside := confinetest.Workspace(t)
	replaceFile(t, outside+"/x", "secret\n")
	script := func(more string) string { return "#!/bin/sh\ncat " + outside + "/x || exit 1\n" + more + "\n" }
	const ours = "(echo evil > r.sh) 2>/dev/null && echo rewritten; echo ours"
	f := newFixture(t, setup{writes: true, unasked: "./r.sh", shell: func(s *shell.Tool) tools.Tool { return networked{s} }})
	t.Cleanup(f.approvals.Attach())
	var asked []approval.Pending
	var change bool
	f.answer(t, func(p approval.Pending) {
		asked = append(asked, p)
		s, err := f.approvals.Show(context.Background(), p.ID)
		if err != nil || !strings.Contains(s.Presentation.Content, "│ cat "+outside+"/x") || !strings.Contains(s.Presentation.Content, "cannot change while the call runs") {
			t.Errorf("what it starts is not shown: %v, %+v", err, s.Presentation)
		}
		if change { // by another session
			replaceFile(t, f.ws+"/r.sh", script("cp "+outside+"/x leaked"))
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test", Scope: approval.Session})
	})
	for _, x := range []struct {
		what, text, line string
		change           bool
		asked            int
	}{
		{"as it was shown", ours, "./r.sh", false, 1},
		{"the same again", ours, "./r.sh", false, 0},
		{"the same with the network", ours, "./r.sh network", false, 1},
		{"the same with another host", ours, "./r.sh network org", false, 1},
		{"with another directory", ours, "./r.sh directory", false, 1},
		{"with that directory again", ours, "./r.sh directory", false, 0},
		{"without it again", ours, "./r.sh", false, 0},
		{"by another definition", ours, "./r.sh definition", false, 1},
		{"another content", ours + " # or not", "./r.sh", false, 1},
		{"changed while it was asked about", "echo ours # of late", "./r.sh", true, 1},
	} {
		replaceFile(t, f.ws+"/r.sh", script(x.text))
		asked, change = nil, x.change
		r, e := f.call(context.Background(), "shell", command(x.line))
		if len(asked) != x.asked {
			t.Errorf("%s: asked %d times, want %d", x.what, len(asked), x.asked)
		}
		if refused := e != nil && e.Code == protocol.CodeDenied && strings.Contains(e.Message, "changed between approval and start"); refused != x.change {
			t.Errorf("%s: %v", x.what, e)
		}
		if out := textOf(r); !x.change && (!strings.Contains(out, "secret\nours\n") || strings.Contains(out, "rewritten")) {
			t.Errorf("%s: %q", x.what, out)
		}
	}
	if _, err := os.Stat(f.ws + "/leaked"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the changed program ran: %v", err)
	}
}

// TestAProgramAsksForPathsAFewTimesOnly: what a program complains of is its own to choose,
// so a call asks three times at most; and where nobody is there, or nobody is to be asked,
// it asks nobody.
func TestAProgramAsksForPathsAFewTimesOnly(t *testing.T) {
	outside := confinetest.Workspace(t)
	line := ""
	for _, name := range strings.Fields("a b c d e f") {
		replaceFile(t, outside+"/"+name, name)
		line += "cat " + outside + "/" + name + " || exit; "
	}
	for _, x := range []struct {
		mode     approval.Mode
		attended bool
		want     int
	}{{approval.Interactive, true, 3}, {approval.Interactive, false, 0}, {approval.Strict, true, 0}, {approval.ApproveAll, true, 0}} {
		f := newFixture(t, setup{mode: x.mode})
		asked := 0
		if x.attended {
			t.Cleanup(f.approvals.Attach())
			f.answer(t, func(p approval.Pending) {
				asked++
				f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
			})
		}
		if r, e := f.call(context.Background(), "shell", command(line)); e != nil || asked != x.want || r.ExitCode == 0 {
			t.Errorf("%+v: asked %d times: %v, %+v", x, asked, e, r)
		}
	}
	if _, err := os.Stat(outside + "/a"); err != nil {
		t.Error(err)
	}
}

// TestAnEditedCallIsAskedAboutAsItIs: a question on the way of a call whose arguments an
// approver has edited shows what runs, and the files that it starts.
func TestAnEditedCallIsAskedAboutAsItIs(t *testing.T) {
	outside := confinetest.Workspace(t)
	replaceFile(t, outside+"/x", "content x\n")
	f := newFixture(t, setup{writes: true, fallback: careful})
	replaceFile(t, f.ws+"/harmless.py", "print('harmless')\n")
	replaceFile(t, f.ws+"/edited.sh", "cat "+outside+"/x\n")
	t.Cleanup(f.approvals.Attach())
	var second *approval.Pending
	f.answer(t, func(p approval.Pending) {
		a := approval.Answer{Allow: true, Approver: "test"}
		if p.ToolName != toolPath {
			a.Args = json.RawMessage(command("sh edited.sh"))
		} else if s, err := f.approvals.Show(context.Background(), p.ID); err == nil {
			second = &s
		}
		f.mustAnswer(t, p, a)
	})
	r, e := f.call(context.Background(), "shell", command("python3 harmless.py"))
	if e != nil || !strings.Contains(textOf(r), "content x\n") || second == nil {
		t.Fatalf("%v, %q, %+v", e, textOf(r), second)
	}
	shown := second.Description + second.Presentation.Content + fmt.Sprint(second.Payload)
	if strings.Contains(shown, "harmless") || !strings.Contains(shown, "sh edited.sh") || !strings.Contains(shown, "│ cat "+outside) {
		t.Errorf("shown: %s", shown)
	}
}
