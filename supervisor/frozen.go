package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// What a person approved runs as it was shown. The files that a call starts are held by
// their content (tools.Hold); while the call runs, its program finds that content there,
// and no other call can take the files' names.

// freezes says that a plan's frozen files need a sandbox of their own; where nobody is
// asked, or nothing here runs the plan, no file is frozen.
func freezes(p *tools.Proposal, mode approval.Mode) {
	frozen := mode != approval.ApproveAll && p.Request != nil && p.Plan.Elsewhere == nil
	for i := range p.Plan.Pins {
		pin := &p.Plan.Pins[i]
		pin.Frozen = pin.Frozen && frozen
		p.Plan.Profile.Fresh = p.Plan.Profile.Fresh || pin.Frozen
	}
}

// frozenFiles are those of the calls under way.
type frozenFiles struct {
	mu    sync.Mutex
	calls map[string]int // by path
}

// keep keeps paths from every call that is prepared until release is called.
func (f *frozenFiles) keep(paths []string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	for _, p := range paths {
		f.calls[p]++
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, p := range paths {
			if f.calls[p]--; f.calls[p] == 0 {
				delete(f.calls, p)
			}
		}
	}
}

// protected is p without the right to change a frozen file, or to take its name.
func (f *frozenFiles) protected(p sandboxprofile.Profile) sandboxprofile.Profile {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return p
	}
	p.Protect = slices.Clone(p.Protect)
	for _, path := range slices.Sorted(maps.Keys(f.calls)) {
		if p.Rights(path)&sandboxprofile.Write != 0 {
			p.Protect = append(p.Protect, patternOf(path))
		}
	}
	return p
}

// patternOf is the pattern that covers one path. It begins at no root, as no pattern does:
// what it covers besides has the whole path at its end.
func patternOf(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(strings.TrimPrefix(path, "/"))
}

// freeze takes the approved content of the plan's frozen files. Whatever happens to the
// files, the sandbox that is prepared with the context has that content. c gives them
// back when it ends.
func (s *Supervisor) freeze(ctx context.Context, c *call, plan tools.Plan) (context.Context, error) {
	var paths []string
	for _, pin := range plan.Pins {
		if pin.Frozen {
			paths = append(paths, pin.Path)
		}
	}
	if len(paths) == 0 {
		return ctx, nil
	}
	c.thaw = append(c.thaw, s.frozen.keep(paths))
	var files []confine.Frozen
	for _, pin := range plan.Pins {
		if !pin.Frozen {
			continue
		}
		var content bytes.Buffer
		if err := pin.Copy(&content); err != nil {
			return ctx, drift(err)
		}
		f, err := memfile.New("frozen", &content)
		if err != nil {
			return ctx, fmt.Errorf("freeze %q: %w", pin.Path, err)
		}
		c.thaw = append(c.thaw, func() { f.Close() })
		files = append(files, confine.Frozen{Path: pin.Path, Mode: os.FileMode(pin.Mode), Content: f})
	}
	return confine.WithFrozen(ctx, files), nil
}
