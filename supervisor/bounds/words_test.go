package bounds

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestDetails: an approver reads in words what the profile says in sets.
func TestDetails(t *testing.T) {
	const r, rx, rw = sandboxprofile.Read, sandboxprofile.Read | sandboxprofile.Execute, sandboxprofile.Read | sandboxprofile.Write
	limits := sandboxprofile.Limits{Wall: 2 * time.Minute, Memory: 4 << 30, Output: 10 << 20, Pids: 512, FileSize: math.MaxInt64}
	p := tools.Proposal{Rule: "shell.default", Plan: tools.Plan{
		Action: sandboxprofile.Action{Exec: &sandboxprofile.Program{Path: "/usr/bin/bash", Dir: "/w", Env: []string{"PATH=/bin", "KEY=secret"}}},
		Profile: sandboxprofile.Profile{
			Paths: map[string]sandboxprofile.Rights{
				"/w": rw, "/cache": rw, "/usr": rx, "/usr/local": rx, "/etc/hosts": r, "/etc/ssl/certs": r, "/root/.gitconfig": r, "/gone": 0},
			Scratch: []string{"/tmp"},
			Protect: []string{"a", "b", "c", "d", "e", "f", "g", "h"},
			Hide:    []string{".env"},
			Network: sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"pypi.org:443"}}},
			Limits:  limits,
		},
	}}
	want := map[string]string{
		"rule": "shell.default", "plan": "sha256:0", "directory": "/w", "program": "/usr/bin/bash",
		"may write": "/cache, /w", "network": "proxied",
		"reads and runs": "/usr", "reads": "/cache, /root/.gitconfig, /w, /etc/hosts, /etc/ssl/certs",
		"but never changes": "a, b, c, d, e, f, and 2 more names, at any depth",
		"and never sees":    ".env",
		"has for itself":    "/tmp, empty at first and gone with the sandbox, 0 bytes each",
		"reaches":           "through the egress proxy, which works for every program: only pypi.org:443, no Unix socket of the machine",
		"is told":           "no environment variable",
		"uses at most":      "wall 2m0s, cpu 0s, memory 4 GiB, pids 512, open files 0, output 10 MiB",
		"keeps":             "changes in writable directories, /tmp, for calls of the same session that the same rule or answer allows; no process outlives its call",
		"warnings":          "one; two",
	}
	if diff := cmp.Diff(want, Details(p, "sha256:0", []string{"one.", "two."})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	given := Details(tools.Proposal{Plan: tools.Plan{
		Action:  sandboxprofile.Action{Exec: &sandboxprofile.Program{Secrets: []sandboxprofile.Secret{{Name: "TOKEN"}, {Name: "HELD", Service: "api=x"}, {Name: "KEY"}}}},
		Profile: sandboxprofile.Profile{UnixSockets: []string{"/run/x.sock"}, Devices: []string{"/dev/kvm"}},
	}}, "", nil)
	if given["is given"] != "TOKEN, KEY" || given["outside"] != "Unix socket /run/x.sock, device /dev/kvm" {
		t.Errorf("of secrets, sockets and devices: %v", given)
	}
	nothing := Details(tools.Proposal{}, "", nil)
	if nothing["may write"] != "" || nothing["reads"] != "" || nothing["network"] != "none" {
		t.Errorf("of nothing: %v", nothing)
	}
}
