package confine

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandgate/sandgate/confine/wire"
)

// maxAsks bounds the questions that wait for an answer: no broker asks more at once.
const maxAsks = 64

// asks answers a broker's questions during one action.
type asks struct {
	std    Stdio
	answer func(wire.Answer)
	ctx    context.Context
	cancel context.CancelFunc
	free   chan struct{}
	busy   sync.WaitGroup
}

func (s *bwrapSandbox) listen(ctx context.Context, std Stdio) *asks {
	a := &asks{std: std, free: make(chan struct{}, maxAsks), answer: func(w wire.Answer) {
		_ = s.send(wire.Frame{Answer: &w}, nil) // it has ended: nobody waits any more
	}}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// take has a question answered, and reports whether it was one to be expected.
func (a *asks) take(q wire.Ask, files []*os.File) bool {
	hear := a.std.Changes
	if q.Why != "" {
		hear = a.std.Refusals
	}
	if hear == nil || !filepath.IsAbs(q.Path) || q.Content != (len(files) == 1) || len(files) > 1 {
		return false
	}
	select {
	case a.free <- struct{}{}:
	default:
		return false
	}
	change := Change{Call: q.Call, Path: q.Path}
	if q.Content {
		if info, err := files[0].Stat(); err != nil || !info.Mode().IsRegular() {
			return false // init is not trusted with what it hands over
		}
		change.Before = files[0]
	}
	a.busy.Go(func() {
		yes := hear(a.ctx, change)
		closeFiles(files)
		<-a.free
		a.answer(wire.Answer{ID: q.ID, Allow: yes})
	})
	return true
}

// end returns when nobody is asked any more.
func (a *asks) end() {
	a.cancel()
	a.busy.Wait()
}
