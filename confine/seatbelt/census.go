//go:build unix

package seatbelt

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// censusEvery is how often the processes of a call are counted.
const censusEvery = 200 * time.Millisecond

// A census is the use of all processes of one group together.
type census struct {
	processes int64
	memory    int64 // bytes resident
}

// watch counts until ctx ends, and gives the first limit that is exceeded. What
// cannot be counted is not within its limit.
func (s *sandbox) watch(ctx context.Context, group int) <-chan confine.Cause {
	exceeded := make(chan confine.Cause, 1)
	go func() {
		tick := time.NewTicker(censusEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if cause := s.exceeded(ctx, group); cause != "" && ctx.Err() == nil {
				exceeded <- cause
				return
			}
		}
	}()
	return exceeded
}

// exceeded is the limit that the group is over now, "" for none.
func (s *sandbox) exceeded(ctx context.Context, group int) confine.Cause {
	l := s.profile.Limits
	out, err := exec.CommandContext(ctx, s.backend.ps, "-axo", "pgid=,rss=").Output()
	if err != nil {
		return confine.PidsLimit
	}
	switch now := countGroup(string(out), group); {
	case now.processes > l.Pids:
		return confine.PidsLimit
	case now.memory > l.Memory:
		return confine.MemoryLimit
	}
	if l.Scratch == sandboxprofile.Unlimited {
		return ""
	}
	for _, dir := range s.scratch {
		if treeSize(dir) > l.Scratch {
			return confine.FileSizeLimit
		}
	}
	return ""
}

// countGroup reads lines of "PGID RSS", RSS in KiB (ps(1)).
func countGroup(text string, group int) census {
	var c census
	for line := range strings.Lines(text) {
		var pgid int
		var rss int64
		if _, err := fmt.Sscan(line, &pgid, &rss); err == nil && pgid == group {
			c.processes++
			c.memory += rss << 10
		}
	}
	return c
}

// treeSize is how many bytes the files below dir have. What cannot be looked at
// is the sandbox's own doing, and may have gone in this moment: it counts nothing.
func treeSize(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// A budget is how many bytes the streams of a program may still have together.
type budget struct {
	mu   sync.Mutex
	left int64
	over chan struct{} // closed when nothing is left
	once sync.Once
}

// take gives how many of n more bytes are within the budget, and adds them to the
// stream's total.
func (b *budget) take(n int, total *int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	*total += int64(n)
	before := max(b.left, 0)
	b.left -= int64(n)
	if b.left < 0 {
		b.once.Do(func() { close(b.over) })
	}
	return int(min(before, int64(n)))
}

// exceeded reports whether something was dropped.
func (b *budget) exceeded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left < 0
}

// counted passes on what is within the budget. It never fails, so that a program
// does not notice that its output is no longer read.
type counted struct {
	*budget
	w io.Writer
	n int64
}

// total is the number of bytes written so far. What holds the stream open beyond
// its call may still be writing.
func (c *counted) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counted) Write(p []byte) (int, error) {
	if keep := c.take(len(p), &c.n); keep > 0 && c.w != nil {
		if _, err := c.w.Write(p[:keep]); err != nil {
			c.w = nil
		}
	}
	return len(p), nil
}
