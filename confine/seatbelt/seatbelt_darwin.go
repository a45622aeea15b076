package seatbelt

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// New checks that this Mac has what the backend stands on. Its error is
// an *Unenforceable.
func New() (*Backend, error) {
	const sandboxExec, ps = "/usr/bin/sandbox-exec", "/bin/ps"
	for _, name := range []string{sandboxExec, ps, "/bin/sh"} {
		if errno := startable(name); errno != 0 {
			return nil, &confine.Unenforceable{Part: "Seatbelt", Reason: fmt.Sprintf("%s: %v", name, errno), Hint: "macOS has it: look at what became of it"}
		}
	}
	return &Backend{sandboxExec: sandboxExec, ps: ps, tag: "sandgate"}, nil
}

// Probe tries what this Mac enforces. The path is of no use here.
func Probe(ctx context.Context, _ string) []confine.Finding {
	return []confine.Finding{
		{Name: "maturity", Status: confine.Unknown, Detail: "this backend has been built for macOS and never been run there by its makers; what follows is what this Mac says"},
		probeSeatbelt(ctx),
	}
}

// probeSeatbelt reads two files, of which the profile grants one.
func probeSeatbelt(ctx context.Context) confine.Finding {
	f := confine.Finding{Name: "seatbelt", Needed: true, Status: confine.Unknown, Remedy: "report what this says"}
	dir, err := os.MkdirTemp("", "sandgate-probe-")
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer os.RemoveAll(dir)
	granted, withheld := dir+"/granted", dir+"/withheld"
	for _, name := range []string{granted, withheld} {
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			f.Detail = err.Error()
			return f
		}
	}
	works, err := probeRead(ctx, granted, granted)
	leaks, err2 := probeRead(ctx, granted, withheld)
	switch {
	case err != nil || err2 != nil:
		f.Detail = fmt.Sprint(err, err2)
	case !works:
		f.Detail = "a program cannot read a file that its profile grants"
	case leaks:
		f.Status, f.Detail = confine.Absent, "a program read a file that its profile does not grant"
	default:
		f.Status, f.Detail, f.Remedy = confine.Held, "sandbox-exec: what is granted can be read, what is beside it cannot", ""
	}
	return f
}

// probeRead reports whether cat(1) reads a file in a sandbox that grants another.
func probeRead(ctx context.Context, granted, name string) (bool, error) {
	b, err := New()
	if err != nil {
		return false, err
	}
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{"/bin": rx, "/usr": rx, granted: sandboxprofile.Read}, Limits: sandboxprofile.NoLimits()}
	s, err := b.Prepare(ctx, p)
	if err != nil {
		return false, err
	}
	defer s.Close()
	var out strings.Builder
	_, err = s.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec,
		Exec: &sandboxprofile.Program{Path: "/bin/cat", Argv: []string{"cat", name}, Dir: "/"}}, confine.Stdio{Stdout: &out})
	return out.String() == name, err
}
