package frozen

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

// Files are those of the calls under way.
type Files struct {
	mu    sync.Mutex
	calls map[string]int // by path
	// others are the calls that have a sandbox, or are about to.
	others map[any]*Box
}

// A Box call has a sandbox, from before it is prepared.
type Box struct {
	profile  sandboxprofile.Profile
	Frozen   []confine.Frozen // that it is prepared with
	prepared chan struct{}    // closed by done
	box      confine.Sandbox
}

// Enter notes that a call is about to have a sandbox, with all files that are frozen now:
// own are those of the call.
func (f *Files) Enter(c any, p sandboxprofile.Profile, own []confine.Frozen) *Box {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.others == nil {
		f.others = map[any]*Box{}
	}
	s := &Box{profile: p, Frozen: slices.Clone(own), prepared: make(chan struct{})}
	f.others[c] = s
	for _, path := range slices.Sorted(maps.Keys(f.calls)) {
		if !slices.ContainsFunc(own, func(o confine.Frozen) bool { return o.Path == path }) {
			s.Frozen = append(s.Frozen, confine.Frozen{Path: path})
		}
	}
	return s
}

// Warnings tell of files that the call could change if another one did not run.
func (b *Box) Warnings(c sandboxprofile.Class) (list []string) {
	for _, f := range b.Frozen {
		if f.Content == nil && c != sandboxprofile.ClassRead && b.profile.Rights(f.Path)&sandboxprofile.Write != 0 {
			list = append(list, fmt.Sprintf("%s cannot be changed until another call has ended, which runs it and was approved with it", f.Path))
		}
	}
	return list
}

// takes are those of paths whose name the sandbox could take.
func (b *Box) takes(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return b.profile.Rights(path)&sandboxprofile.Write == 0 || slices.ContainsFunc(b.Frozen, func(f confine.Frozen) bool { return f.Path == path })
	})
}

func (f *Files) Leave(c any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.others, c)
}

// writers are the sandboxes from before that can write to one of the paths.
func (f *Files) writers(paths []string) (list []*Box) {
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
func (f *Files) keep(paths []string) (release func()) {
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

// Take takes the approved content of a plan's frozen files. What thaw has is to be called when
// the call ends, with an error too.
func (f *Files) Take(ctx context.Context, plan tools.Plan) (files []confine.Frozen, thaw []func(), err error) {
	var paths []string
	for _, pin := range plan.Pins {
		if pin.Frozen {
			paths = append(paths, pin.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil, nil
	}
	thaw = append(thaw, f.keep(paths))
	for _, other := range f.writers(paths) {
		release, err := other.keepFrom(ctx, paths)
		if err != nil {
			return nil, thaw, err
		}
		thaw = append(thaw, release)
	}
	for _, pin := range plan.Pins {
		if !pin.Frozen {
			continue
		}
		var content bytes.Buffer
		if err := pin.Copy(&content); err != nil {
			return nil, thaw, failure.Drift(err)
		}
		held, err := memfile.New("frozen", &content)
		if err != nil {
			return nil, thaw, fmt.Errorf("freeze %q: %w", pin.Path, err)
		}
		thaw = append(thaw, func() { held.Close() })
		files = append(files, confine.Frozen{Path: pin.Path, Mode: os.FileMode(pin.Mode), Content: held})
	}
	return files, thaw, nil
}

// keepFrom keeps a sandbox that stands already from taking the names of paths.
func (b *Box) keepFrom(ctx context.Context, paths []string) (release func(), err error) {
	select {
	case <-b.prepared:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	box, ok := b.box.(confine.Freezer)
	if !ok {
		return func() {}, nil // it was refused, or has nothing to keep names with
	}
	release, err = box.Keep(b.takes(paths))
	if err != nil {
		return nil, &confine.Unenforceable{
			Part: "that what was approved stays as it is", Reason: "another call is running that could change it: " + err.Error(),
			Hint: "wait until the other call has ended, or end it, and call again",
		}
	}
	return release, nil
}

// Stand notes the sandbox.
func (b *Box) Stand(box confine.Sandbox) { b.box = box }

// Done lets others see the sandbox; without one it was refused.
func (b *Box) Done() { close(b.prepared) }
