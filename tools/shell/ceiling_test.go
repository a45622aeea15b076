package shell

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// bounded is an allowing rule with a ceiling of its own.
func bounded(pattern string, change func(*sandboxprofile.Profile)) Rule {
	c := sandboxprofile.Top()
	change(&c)
	r := allowing(pattern)
	r.Bound = &c
	return r
}

func offline(p *sandboxprofile.Profile) { p.Network = sandboxprofile.Network{} }
func brief(p *sandboxprofile.Profile)   { p.Limits.Wall = 5 * time.Second }
func small(p *sandboxprofile.Profile)   { p.Limits.Pids = 10 }
func oneHost(p *sandboxprofile.Profile) {
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"a.example"}}}
}

func ceilingFixture(t testing.TB) fixture {
	deny := denying("ls deny")
	f := newFixture(t, bounded("ls", brief), bounded("ls -l", offline), bounded("run x", small), allowing("echo"), bounded("get", oneHost), deny)
	f.config.Profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkHost}
	f.config.Profile.Limits = sandboxprofile.Limits{Wall: time.Minute, Pids: 100}
	f.config.Profile.Env = sandboxprofile.Env{Names: []string{"LANG", "PATH"}}
	f.config.ProxyEnv = []string{"HTTP_PROXY=http://127.0.0.1:1", "LANG=never"}
	return f
}

// TestBounds: a command line gets the meet of what bounds each command in it,
// whichever rule decides, and also where a rule only could match.
func TestBounds(t *testing.T) {
	f := ceilingFixture(t)
	const none, proxied, host = sandboxprofile.NetworkNone, sandboxprofile.NetworkProxied, sandboxprofile.NetworkHost
	for _, c := range []struct {
		command string
		wall    time.Duration
		pids    int64
		network sandboxprofile.NetworkMode
	}{
		{"echo", time.Minute, 100, host},
		{"ls", 5 * time.Second, 100, host},
		{"ls -l", 5 * time.Second, 100, none},
		{"'l's -l", 5 * time.Second, 100, none},
		{"ls --l", 5 * time.Second, 100, host},
		{"echo && ls", 5 * time.Second, 100, host},
		{"echo | (echo; ls -l) > /dev/null", 5 * time.Second, 100, none},
		{"run x; ls", 5 * time.Second, 10, host},
		{"echo $(run x)", time.Minute, 10, host},
		{"timeout 3 run x", time.Minute, 10, host},
		{"bash -c 'run x'", time.Minute, 10, host},
		{"ls $x", 5 * time.Second, 100, none},
		{"run $x", time.Minute, 10, host},
		{"run y", time.Minute, 100, host},
		{"$x", 5 * time.Second, 10, none},
		{"get", time.Minute, 100, proxied},
		{"get; ls -l", 5 * time.Second, 100, none},
	} {
		p, err := f.tool(t).Plan(call(map[string]any{"command": c.command}))
		if err != nil {
			t.Fatalf("%q: %v", c.command, err)
		}
		got := p.Plan.Profile
		if got.Limits.Wall != c.wall || got.Limits.Pids != c.pids || got.Network.Mode != c.network {
			t.Errorf("%q: %v, %d processes, network %v; want %v, %d, %v", c.command,
				got.Limits.Wall, got.Limits.Pids, got.Network.Mode, c.wall, c.pids, c.network)
		}
		if !sandboxprofile.Within(got, sandboxprofile.Intersect(f.config.Profile, got)) && c.network != proxied {
			t.Errorf("%q: the profile is not within the tool's own", c.command)
		}
	}
}

// TestProxyVariablesComeWithAList: where a rule makes a list of hosts of the host's
// network, programs are told of the proxy; what is set already stays.
func TestProxyVariablesComeWithAList(t *testing.T) {
	f := ceilingFixture(t)
	for command, want := range map[string]bool{"get": true, "echo": false, "get; ls -l": false} {
		p, err := f.tool(t).Plan(call(map[string]any{"command": command}))
		if err != nil {
			t.Fatal(err)
		}
		env := p.Plan.Action.Exec.Env
		if got := slices.Contains(env, "HTTP_PROXY=http://127.0.0.1:1") && p.Plan.Profile.Env.Has("HTTP_PROXY"); got != want {
			t.Errorf("%q: proxy variables %v, want %v: %q", command, got, want, env)
		}
		if !slices.Contains(env, "LANG=C") {
			t.Errorf("%q: LANG was replaced: %q", command, env)
		}
	}
}

// TestMoreCommandsNeverWiden: adding a command to a line keeps every bound on it.
func TestMoreCommandsNeverWiden(t *testing.T) {
	tool := ceilingFixture(t).tool(t)
	commands := []string{"ls", "ls -l", "run x", "echo", "get", "$x", "timeout 1 ls -l"}
	profile := func(rt *rapid.T, command string) sandboxprofile.Profile {
		p, err := tool.Plan(call(map[string]any{"command": command}))
		if err != nil {
			rt.Fatal(err)
		}
		p.Plan.Profile.Env = sandboxprofile.Env{} // proxy variables come with the proxy
		return p.Plan.Profile
	}
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(commands), 1, 4).Draw(rt, "commands")
		separator := rapid.SampledFrom([]string{"; ", " && ", " | ", "\n"}).Draw(rt, "separator")
		line := list[0]
		for _, next := range list[1:] {
			before := profile(rt, line)
			line += separator + next
			if after := profile(rt, line); !sandboxprofile.Within(after, before) {
				rt.Fatalf("%q has more than without %q", line, next)
			}
		}
	})
}
