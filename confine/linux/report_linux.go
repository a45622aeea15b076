package linux

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// Examine tries every backend of this system. bwrap is as for NewBwrap.
func Examine(ctx context.Context, bwrap string) confine.Report {
	first := Probe(ctx, bwrap)
	second := probeHostSandbox(ctx, LandlockOptions{})
	host := confine.NewBackendReport("landlock", second)
	for _, l := range landlock.Refusals() {
		host.Refuses = append(host.Refuses, confine.Limitation(l))
	}
	if unix.Access("/tmp", unix.W_OK) != nil {
		host.Refuses = append(host.Refuses, confine.Limitation{Part: "files in /tmp itself", Reason: "this user cannot write there, and only what is made there is private; TMPDIR and HOME work. A volume at /tmp gives more"})
	}
	r := confine.NewReport([]confine.BackendReport{confine.NewBackendReport("bwrap", first), host}, slices.Concat(first, second))
	r.Found = surroundings()
	return r
}

// hostActs must not work in a sandbox of the landlock backend.
var hostActs = []act{
	{"landlock: files", "read -r x < $1/open/shown; (: < $1/secret) 2>/dev/null && echo $x read || echo $x refused", "text refused", "what is not listed cannot be opened"},
	{"landlock: read-only files", "(: >> $1/open/shown) 2>/dev/null && echo written || echo refused", "refused", "what may only be read cannot be written"},
	{"landlock: signals", "(kill -0 $PPID || kill -0 $2) 2>/dev/null && echo reached || echo refused", "refused", "nothing outside of the sandbox can be signalled"},
	{"landlock: processes", "(: < /proc/$2/environ) 2>/dev/null && echo read || echo refused", "refused", "environment and memory of processes outside cannot be read; their command lines can"},
	{"landlock: modes", "chmod 700 $1/open/shown 2>/dev/null && echo changed || echo refused", "refused", "modes, owners and times outside cannot be changed"},
	{"landlock: changes", "f=${TMPDIR:-/tmp}/probe; umask 077; : > $f && chmod 600 $f && rm $f && echo made || echo refused", "made", "private directories can be used"},
}

// probeHostSandbox builds a sandbox of the landlock backend and lets programs in
// it try what must not work.
func probeHostSandbox(ctx context.Context, o LandlockOptions) []confine.Finding {
	const name = "landlock: sandbox"
	l, err := NewLandlock(o)
	if err != nil {
		return []confine.Finding{finding(name, "", true, err)}
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return tryActs(ctx, name, l, hostActs)
}
