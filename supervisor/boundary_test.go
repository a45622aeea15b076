package supervisor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// reaching gives f the tool shell with another profile, as a changed configuration does.
func (f *fixture) reaching(t *testing.T, credentials tools.Credentials, change func(*sandboxprofile.Profile)) {
	t.Helper()
	profile := confinetest.Profile(t, f.ws)
	profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"a.example:443", "b.example:443"}}}
	profile.Hide = append(profile.Hide, ".env")
	change(&profile)
	sh, err := shell.New(shell.Config{
		Default: shell.Default{Allowed: true, Approval: true}, Profile: profile, Env: []string{"PATH=/usr/bin:/bin"}, Credentials: credentials,
		Paths: tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.ws, Write: true, WriteApproval: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.cfg.Tools, err = tools.NewRegistry(sh); err != nil {
		t.Fatal(err)
	}
}

// TestAnAnswerIsForWhatWasShown: an answer that is remembered, for a call or a pattern, holds
// while the call reaches no more than was shown with it, and is asked for again where it does.
func TestAnAnswerIsForWhatWasShown(t *testing.T) {
	same := func(*sandboxprofile.Profile) {}
	for _, of := range []*approval.Pattern{nil, {Kind: approval.ArgvPrefix, Value: "touch x"}} {
		f := newFixture(t, setup{mode: approval.Interactive})
		f.reaching(t, tools.Credentials{}, same)
		stop := f.approvals.Subscribe(func(e approval.Event) {
			if e.Kind == approval.Requested {
				f.mustAnswer(t, e.Pending, approval.Answer{Allow: true, Scope: approval.Global, Pattern: of, Approver: "test"})
			}
		})
		decision := func() protocol.CheckDecision {
			r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: "shell", Args: json.RawMessage(`{"command": "touch x"}`)})
			if err != nil {
				t.Fatal(err)
			}
			return r.Decision
		}
		answer := func() {
			if _, e := f.call(context.Background(), "shell", `{"command": "touch x"}`); e != nil {
				t.Fatal(e)
			}
		}
		answer()
		outside := t.TempDir()
		wider := func(p *sandboxprofile.Profile) { p.Paths[outside] = sandboxprofile.Read }
		for _, c := range []struct {
			name   string
			change func(*sandboxprofile.Profile)
			want   protocol.CheckDecision
		}{
			{"the same", same, protocol.CheckAllow},
			{"fewer hosts", func(p *sandboxprofile.Profile) { p.Network.Allow = [][]string{{"a.example:443"}} }, protocol.CheckAllow},
			{"one more list of hosts", func(p *sandboxprofile.Profile) { p.Network.Allow = append(p.Network.Allow, []string{"a.example:443"}) }, protocol.CheckAllow},
			{"no network", func(p *sandboxprofile.Profile) { p.Network = sandboxprofile.Network{} }, protocol.CheckAsk}, // its payload says so
			{"more is hidden", func(p *sandboxprofile.Profile) { p.Hide = append(p.Hide, "*.key") }, protocol.CheckAllow},
			{"shorter", func(p *sandboxprofile.Profile) { p.Limits.Pids = 7 }, protocol.CheckAllow},
			{"another host", func(p *sandboxprofile.Profile) { p.Network.Allow = [][]string{{"a.example:443", "c.example:443"}} }, protocol.CheckAsk},
			{"asks for others", func(p *sandboxprofile.Profile) { p.Network.Ask = true }, protocol.CheckAsk},
			{"a path more", wider, protocol.CheckAsk},
			{"less is hidden", func(p *sandboxprofile.Profile) { p.Hide = nil }, protocol.CheckAsk},
			{"less is protected", func(p *sandboxprofile.Profile) { p.Protect = nil }, protocol.CheckAsk},
		} {
			if f.reaching(t, tools.Credentials{}, c.change); of != nil && c.name == "no network" {
				c.want = protocol.CheckAllow
			}
			if got := decision(); got != c.want {
				t.Errorf("pattern %v, %s: %s, want %s", of, c.name, got, c.want)
			}
		}
		f.reaching(t, tools.Credentials{}, wider)
		answer() // and now it is for both
		for name, change := range map[string]func(*sandboxprofile.Profile){"as answered": wider, "as before": same} {
			if f.reaching(t, tools.Credentials{}, change); decision() != protocol.CheckAllow {
				t.Errorf("pattern %v, %s: asked again", of, name)
			}
		}
		stop()
	}
}

// TestABoundaryHasItsSecrets: what a program is given is part of what an answer is for.
func TestABoundaryHasItsSecrets(t *testing.T) {
	with := func(secrets ...sandboxprofile.Secret) bounds.Boundary {
		return bounds.BoundaryOf(tools.Plan{Action: sandboxprofile.Action{Exec: &sandboxprofile.Program{Secrets: secrets}}})
	}
	a, b := sandboxprofile.Secret{Name: "A", File: "/a", Host: "h:1"}, sandboxprofile.Secret{Name: "B", File: "/b", Env: true}
	if !with(a).Within(with(a, b).Text()) || !with().Within(with(a).Text()) {
		t.Error("fewer secrets are more")
	}
	elsewhere := a
	elsewhere.Host = "i:1"
	if with(a, b).Within(with(a).Text()) || with(elsewhere).Within(with(a).Text()) || with(a).Within("") {
		t.Error("another secret is none")
	}
}
