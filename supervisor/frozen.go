package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/tools"
)

// What a person approved runs as it was shown. The files that a call starts are held by
// their content (tools.Hold); while the call runs, its program finds that content there,
// and no other call can take the files' names.

// frozenFiles are those of the calls under way.
type frozenFiles struct {
	mu    sync.Mutex
	calls map[string]int // by path
	// others are the calls that have a sandbox, or are about to.
	others map[*call]*boxed
}

// A boxed call has a sandbox, from before it is prepared.
type boxed struct {
	profile  sandboxprofile.Profile
	frozen   []confine.Frozen // that it is prepared with
	prepared chan struct{}    // closed once box is set
	box      confine.Sandbox
}

// enter notes that a call is about to have a sandbox, with all files that are frozen now:
// own are those of the call.
func (f *frozenFiles) enter(c *call, p sandboxprofile.Profile, own []confine.Frozen) *boxed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.others == nil {
		f.others = map[*call]*boxed{}
	}
	s := &boxed{profile: p, frozen: slices.Clone(own), prepared: make(chan struct{})}
	f.others[c] = s
	for _, path := range slices.Sorted(maps.Keys(f.calls)) {
		if !slices.ContainsFunc(own, func(o confine.Frozen) bool { return o.Path == path }) {
			s.frozen = append(s.frozen, confine.Frozen{Path: path})
		}
	}
	return s
}

// warnings tell of files that the call could change if another one did not run.
func (b *boxed) warnings(c sandboxprofile.Class) (list []string) {
	for _, f := range b.frozen {
		if f.Content == nil && c != sandboxprofile.ClassRead && b.profile.Rights(f.Path)&sandboxprofile.Write != 0 {
			list = append(list, fmt.Sprintf("%s cannot be changed until another call has ended, which runs it and was approved with it", f.Path))
		}
	}
	return list
}

// takes are those of paths whose name the sandbox could take.
func (b *boxed) takes(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return b.profile.Rights(path)&sandboxprofile.Write == 0 || slices.ContainsFunc(b.frozen, func(f confine.Frozen) bool { return f.Path == path })
	})
}

func (f *frozenFiles) leave(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.others, c)
}

// writers are the sandboxes from before that can write to one of the paths.
func (f *frozenFiles) writers(paths []string) (list []*boxed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.others {
		if len(s.takes(paths)) > 0 {
			list = append(list, s)
		}
	}
	return list
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

// freeze takes the approved content of the plan's frozen files. c gives them back when it
// ends.
func (s *Supervisor) freeze(ctx context.Context, c *call, plan tools.Plan) ([]confine.Frozen, error) {
	var paths []string
	for _, pin := range plan.Pins {
		if pin.Frozen {
			paths = append(paths, pin.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	c.thaw = append(c.thaw, s.frozen.keep(paths))
	for _, other := range s.frozen.writers(paths) {
		if err := c.keepFrom(ctx, other, paths); err != nil {
			return nil, err
		}
	}
	var files []confine.Frozen
	for _, pin := range plan.Pins {
		if !pin.Frozen {
			continue
		}
		var content bytes.Buffer
		if err := pin.Copy(&content); err != nil {
			return nil, failure.Drift(err)
		}
		f, err := memfile.New("frozen", &content)
		if err != nil {
			return nil, fmt.Errorf("freeze %q: %w", pin.Path, err)
		}
		c.thaw = append(c.thaw, func() { f.Close() })
		files = append(files, confine.Frozen{Path: pin.Path, Mode: os.FileMode(pin.Mode), Content: f})
	}
	return files, nil
}

// keepFrom keeps a sandbox that stands already from taking the names of paths.
func (c *call) keepFrom(ctx context.Context, other *boxed, paths []string) error {
	select {
	case <-other.prepared:
	case <-ctx.Done():
		return ctx.Err()
	}
	box, ok := other.box.(confine.Freezer)
	if !ok {
		return nil // it was refused, or has nothing to keep names with
	}
	release, err := box.Keep(other.takes(paths))
	if err != nil {
		return &confine.Unenforceable{
			Part: "that what was approved stays as it is", Reason: "another call is running that could change it: " + err.Error(),
			Hint: "wait until the other call has ended, or end it, and call again",
		}
	}
	c.thaw = append(c.thaw, release)
	return nil
}
