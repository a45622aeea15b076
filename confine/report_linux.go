package confine

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// Examine tries every backend of this system. bwrap is as for NewBwrap.
func Examine(ctx context.Context, bwrap string) Report {
	first := Probe(ctx, bwrap)
	second := probeHostSandbox(ctx, LandlockOptions{})
	host := backendReport("landlock", second)
	for _, l := range landlock.Refusals() {
		host.Refuses = append(host.Refuses, Limitation(l))
	}
	r := report([]BackendReport{backendReport("bwrap", first), host}, slices.Concat(first, second))
	r.Found = surroundings()
	return r
}

// hostActs are what must not work in a sandbox of the landlock backend.
var hostActs = []act{
	{"landlock: files", "(: < /etc/shadow) 2>/dev/null && echo read || echo refused", "refused", "what is not listed cannot be opened"},
	{"landlock: read-only system", "(echo x > /usr/sandgate-probe) 2>/dev/null && echo written || echo refused", "refused", "system directories cannot be written"},
	{"landlock: signals", "kill -0 $PPID 2>/dev/null && echo reached || echo refused", "refused", "nothing outside of the sandbox can be signalled"},
	{"landlock: processes", "(: < /proc/$PPID/environ) 2>/dev/null && echo read || echo refused", "refused", "environment and memory of processes outside cannot be read; their command lines can"},
	{"landlock: modes", "m=$(stat -c %a /usr/bin/env); chmod \"$m\" /usr/bin/env 2>/dev/null && echo changed || echo refused", "refused", "modes, owners and times outside cannot be changed"},
	{"landlock: changes", "umask 077; : > /tmp/sandgate-probe-$$ && chmod 600 /tmp/sandgate-probe-$$ && rm /tmp/sandgate-probe-$$ && echo made || echo refused", "made", "private directories can be used"},
}

// probeHostSandbox builds a sandbox of the landlock backend and lets programs in
// it try what must not work.
func probeHostSandbox(ctx context.Context, o LandlockOptions) []Finding {
	const name = "landlock: sandbox"
	l, err := NewLandlock(o)
	if err != nil {
		return []Finding{finding(name, "", true, err)}
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	box, err := l.Prepare(ctx, probeProfile())
	if err != nil {
		return []Finding{finding(name, "", true, err)}
	}
	defer box.Close()
	findings := []Finding{finding(name, box.Enforced().Files, true, nil)}
	for _, act := range hostActs {
		findings = append(findings, act.probe(ctx, box))
	}
	return findings
}
