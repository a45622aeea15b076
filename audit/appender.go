package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// An appender continues the chain in one file. It is used by one goroutine, and
// shares the file with appenders of other processes: every public step of it
// holds the file's lock.
type appender struct {
	path string
	file disk
	sync SyncMode
	self writer
	now  func() time.Time

	tail  chain     // what this appender has read or written so far
	calls openCalls // as of tail, of every process
	// marked is the last entry that a checkpoint of ours covers.
	marked uint64
	// due is the checkpoint to be written next, and waiting how many synced writes came
	// after the last that was. What is not synced must not be in a checkpoint: a loss of
	// power may take it, and the log would seem cut.
	due     *checkpoint
	waiting int
	// checkpointErr is why the last checkpoint could not be written. The entries
	// are on disk nevertheless; an older checkpoint only makes Open read more.
	checkpointErr error
	// owed was set aside and has no entry in the chain yet.
	owed *Torn
	// failed stays set once the disk has lost writes.
	failed error
}

// A request is one entry on its way to the disk. err is its own fault, not the
// disk's.
type request struct {
	entry Entry
	err   error
	done  chan error
}

// append writes the requests as one, after whatever other processes have written.
// When it fails none of them is in the log, unless the disk refuses even to take
// back what it has half written; then the next append sees to that first.
func (a *appender) append(batch []*request) error {
	return a.locked(func() error {
		if err := a.catchUp(); err != nil {
			return err
		}
		sync, err := a.write(batch)
		if err != nil || !sync {
			return err
		}
		a.due = a.checkpoint()
		if a.waiting++; a.waiting >= markEvery || a.marked == 0 {
			a.mark(a.due)
		}
		return nil
	})
}

// A checkpoint is written when the log is idle or after a number of synced writes, so no caller
// waits for it. Until then, Open reads more entries, and Verify cannot detect entries that were
// cut off. A log without a checkpoint gets one at once.
const (
	markDelay = 10 * time.Millisecond
	markEvery = 64
)

// markLate writes the checkpoint that is due, if one is.
func (a *appender) markLate() {
	if a.due == nil {
		return
	}
	_ = a.locked(func() error { // where it fails, checkpointErr keeps it
		a.mark(a.due)
		return nil
	})
}

func (a *appender) locked(f func() error) error {
	if a.failed != nil {
		return a.failed
	}
	unlock, err := a.file.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// catchUp brings tail to the end of the file.
func (a *appender) catchUp() error {
	size, err := a.size()
	switch {
	case err != nil:
		return err
	case size < a.tail.offset:
		return corrupt(a.tail.fault(FaultCut, fmt.Sprintf("the log shrank to %d bytes", size)))
	case size > a.tail.offset:
		err = a.readOn(size)
	}
	if err != nil {
		return err
	}
	return a.acknowledge()
}

// size is the size of the file in bytes. It fails if path leads to another file
// by now: entries appended to a removed log would be lost without a word.
func (a *appender) size() (int64, error) {
	ours, err := a.file.Stat()
	if err != nil {
		return 0, err
	}
	named, err := os.Lstat(a.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(ours, named) {
		return 0, errReplaced
	}
	return ours.Size(), err
}

// readOn follows the log from tail to size. A damaged end is set aside and owed.
func (a *appender) readOn(size int64) error {
	rest := io.NewSectionReader(a.file, a.tail.offset, size-a.tail.offset)
	var err error
	a.tail, err = walk(a.tail, rest, func(e Entry, from, _ chain) error {
		a.calls.apply(e, from.offset)
		return nil
	})
	var bad *ChainError
	if errors.As(err, &bad) {
		return a.setAside(bad, size)
	}
	return err
}

// write appends the requests at tail, and reports whether they are durable. The caller
// holds the lock and has caught up.
func (a *appender) write(batch []*request) (durable bool, err error) {
	next := a.tail
	var (
		lines   []byte
		written []placed
		sync    bool
	)
	for _, r := range batch {
		from := next.offset
		line, err := a.line(&r.entry, next)
		if err != nil {
			r.err = err
			continue
		}
		next.advance(&r.entry, len(line))
		lines = append(lines, line...)
		written = append(written, placed{r.entry, from})
		sync = sync || a.sync.wants(r.entry.Kind)
	}
	if err := a.put(lines, sync); err != nil {
		return false, err
	}
	a.tail = next
	for _, p := range written {
		a.calls.apply(p.entry, p.offset)
	}
	return sync, nil
}

type placed struct {
	entry  Entry
	offset int64
}

// line completes e as the entry after c and returns its line.
func (a *appender) line(e *Entry, c chain) ([]byte, error) {
	e.Version = FormatVersion
	e.Seq = c.seq + 1
	e.Time = a.now().UTC()
	e.Writer = a.self.String()
	e.Prev = c.hash
	line, err := e.seal()
	if err == nil && len(line) > MaxLine {
		err = fmt.Errorf("an entry of %d bytes, the limit is %d", len(line), MaxLine)
	}
	return line, err
}

// put writes lines with one write(2), so that no other process can write between them,
// and takes back a part that did not reach the disk.
func (a *appender) put(lines []byte, sync bool) error {
	_, err := a.file.Write(lines)
	if err == nil && sync {
		if err = a.file.SyncData(); err != nil {
			err = fmt.Errorf("%w: %w", errSync, err)
			a.failed = err
		}
	}
	if err != nil {
		// If this fails too, the next append finds the file longer than tail and
		// reads on: half a line is set aside then, as after a crash.
		_ = a.file.Truncate(a.tail.offset)
	}
	return err
}

// checkpoint is the one for tail.
func (a *appender) checkpoint() *checkpoint {
	return &checkpoint{
		Version: FormatVersion,
		Seq:     a.tail.seq, Hash: a.tail.hash, Size: a.tail.offset,
		OpenFrom: a.calls.oldest(a.tail.offset),
	}
}

// mark writes a checkpoint for what is on disk.
func (a *appender) mark(cp *checkpoint) {
	a.checkpointErr = cp.write(a.path)
	a.marked = cp.Seq
	a.due, a.waiting = nil, 0
}

// settle makes everything durable, entries of lesser kinds too.
func (a *appender) settle() error {
	return a.locked(func() error {
		if err := a.catchUp(); err != nil {
			return err
		}
		return a.settleLocked()
	})
}

func (a *appender) settleLocked() error {
	if a.marked == a.tail.seq && a.checkpointErr == nil {
		return nil
	}
	if err := a.file.SyncData(); err != nil {
		a.failed = fmt.Errorf("%w: %w", errSync, err)
		return a.failed
	}
	a.mark(a.checkpoint())
	return a.checkpointErr
}

func corrupt(e *ChainError) error { return fmt.Errorf("%w: %w", ErrCorrupt, e) }
