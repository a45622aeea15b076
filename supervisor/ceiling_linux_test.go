package supervisor

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestAnAnswerIsForWhatTheProgramReaches: what was allowed without network is asked about
// again with it; where the network is as it was, it is not.
func TestAnAnswerIsForWhatTheProgramReaches(t *testing.T) {
	host := func(p *sandboxprofile.Profile) { p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkHost} }
	f := newFixture(t, setup{fallback: careful, profile: host})
	with := sandboxprofile.Top()
	without := with
	without.Network = sandboxprofile.Network{}
	f.cfg.Operator = without
	f.answer(t, func(p approval.Pending) {
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	for _, x := range []form{line("touch made"), argv("touch", "made")} {
		if _, e := f.outputOf(t, x); e != nil {
			t.Fatalf("%v: %v", x, e)
		}
		for _, now := range []struct {
			operator sandboxprofile.Profile
			want     tools.Effect
		}{{without, tools.Allow}, {with, tools.Ask}, {without, tools.Allow}} {
			f.cfg.Operator = now.operator
			r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "check", Tool: protocol.ToolName(x.tool), Args: json.RawMessage(x.args)})
			if err != nil || string(r.Decision) != now.want.String() {
				t.Errorf("%v with network %v: %v, %v; want %v", x, now.operator.Network.Mode, r.Decision, err, now.want)
			}
		}
	}
}

// TestNoEditorTakesOrdersFromALine: git opens no editor for a commit that a rule lets run. The twin, about
// which a person was asked, starts the editor, which reads what the line gives it.
func TestNoEditorTakesOrdersFromALine(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{fallback: careful, unasked: "git commit", writes: true, env: []string{"HOME=/tmp", "EDITOR=sh -s"}})
	f.answer(t, func(p approval.Pending) { f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"}) })
	for _, args := range [][]string{{"init", "-q"}, {"config", "core.editor", "sh -s"}, {"config", "user.name", "a"}, {"config", "user.email", "a@b.example"}} {
		c := exec.Command("git", args...)
		c.Dir, c.Env = f.ws, []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	const commit = "git commit --allow-empty <<< 'touch ran'"
	for _, line := range []string{commit, "timeout 20 " + commit, "touch asked; " + commit} {
		r, e := f.call(context.Background(), "shell", command(line))
		_, err := os.Stat(f.ws + "/ran")
		if e != nil || r.ExitCode == 0 || (err == nil) != strings.Contains(line, "asked") {
			t.Errorf("%q: %v, %d, %q: the editor ran: %t", line, e, r.ExitCode, textOf(r), err == nil)
		}
	}
}

// TestNoRemoteStartsWhatADirectoryBringsAlong: a rule for `git push`, and an answer to another
// push, let git speak with other machines, whatever the repository's own settings make of a
// remote. The twins, about which a person was asked, start the hooks that lie there.
func TestNoRemoteStartsWhatADirectoryBringsAlong(t *testing.T) {
	t.Parallel()
	const push = "git push origin HEAD:refs/heads/x"
	f := newFixture(t, setup{fallback: careful, unasked: "git push", writes: true, env: []string{"HOME=/tmp"}})
	asked, answer := 0, approval.Answer{Approver: "test"}
	f.answer(t, func(p approval.Pending) {
		asked++
		f.mustAnswer(t, p, answer)
	})
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", args...)
		c.Dir, c.Env = f.ws, []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "one")
	git("init", "-q", "--bare", "evil.git")
	ran := f.ws + "/ran"
	if err := os.WriteFile(f.ws+"/evil.git/hooks/pre-receive", []byte("#!/bin/sh\ntouch "+ran+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	started := func() bool {
		t.Helper()
		_, err := os.Stat(ran)
		_ = os.Remove(ran)
		return err == nil
	}
	held := func(tool, args, why string) {
		t.Helper()
		r, e := f.call(context.Background(), tool, args)
		if e != nil || r.ExitCode == 0 || started() || !strings.Contains(textOf(r), "not allowed") {
			t.Errorf("%s: %s: %v, %d, %q", why, args, e, r.ExitCode, textOf(r))
		}
	}
	evil := f.ws + "/evil.git"
	for why, set := range map[string][][2]string{
		"a path":              {{"remote.origin.url", "./evil.git"}},
		"a file URL":          {{"remote.origin.url", "file://" + evil}},
		"a push URL":          {{"remote.origin.url", "https://code.example/x"}, {"remote.origin.pushurl", evil}},
		"another's beginning": {{"remote.origin.url", "https://code.example/evil.git"}, {"url." + f.ws + "/.insteadOf", "https://code.example/"}},
		"of pushes":           {{"remote.origin.url", "https://code.example/evil.git"}, {"url." + f.ws + "/.pushInsteadOf", "https://code.example/"}},
		"a program":           {{"remote.origin.url", "ext::sh -c touch% " + ran}, {"protocol.ext.allow", "always"}},
		"a helper":            {{"remote.origin.url", "x"}, {"remote.origin.vcs", "ext"}},
		"a program there":     {{"remote.origin.url", "./evil.git"}, {"remote.origin.receivepack", "touch " + ran + "; git-receive-pack"}, {"protocol.file.allow", "always"}},
	} {
		for _, kv := range set {
			git("config", kv[0], kv[1])
		}
		held("shell", command(push), why)
		for _, kv := range set {
			git("config", "--unset-all", kv[0])
		}
	}
	git("config", "remote.origin.url", "./evil.git")
	for _, line := range []string{"git push", "timeout 20 " + push, "bash -c '" + push + "'", "git push https://code.example/x && " + push} {
		if line == "git push" {
			git("config", "push.default", "current")
		}
		if strings.Contains(line, "https:") {
			git("config", "url."+evil+".insteadOf", "https://code.example/x")
		}
		held("shell", command(line), "the line")
	}
	held("shell", `{"command": "`+push+`", "dir": "`+f.ws+`"}`, "with a directory")

	answer = approval.Answer{Allow: true, Approver: "test", Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "git push"}}
	run := `{"argv": ["git", "push", "origin", "HEAD:refs/heads/x"]}`
	if _, e := f.call(context.Background(), "run", run); e != nil || asked != 1 || !started() {
		t.Errorf("a person allowed this call: %v, asked %d times", e, asked)
	}
	held("run", `{"argv": ["git", "push", "origin", "HEAD:refs/heads/y"]}`, "a remembered pattern")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	answer = approval.Answer{Allow: true, Approver: "test"}
	if _, e := f.call(context.Background(), "shell", command(push+"; touch asked")); e != nil || asked != 2 || !started() {
		t.Errorf("a person allowed this line: %v, asked %d times", e, asked)
	}
}
