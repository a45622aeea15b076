package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SyncMode says which entries are on disk before Append returns.
type SyncMode string

const (
	// SyncDecision is the default: decisions, and what the log itself recovers.
	SyncDecision SyncMode = "decision"
	SyncAlways   SyncMode = "always"
	// SyncNever leaves it to the kernel. A loss of power may take entries with it.
	SyncNever SyncMode = "never"
)

func (m SyncMode) wants(k Kind) bool {
	switch m {
	case SyncAlways:
		return true
	case SyncNever:
		return false
	}
	return k == KindDecision || k == KindAnswer || k == KindRecovered || k == KindInterrupted
}

// Options configures a log. The zero value is the default.
type Options struct {
	Sync SyncMode // "" is SyncDecision
	// Redactor removes secrets; nil is one with DefaultRules.
	Redactor *Redactor
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (o *Options) complete() error {
	switch o.Sync {
	case "":
		o.Sync = SyncDecision
	case SyncDecision, SyncAlways, SyncNever:
	default:
		return fmt.Errorf("sync mode %q: want decision, always or never", o.Sync)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redactor == nil {
		o.Redactor = trustedRedactor(DefaultRules())
	}
	return nil
}

// A Log is an open audit log. It is safe for concurrent use.
type Log struct {
	path     string
	redactor *Redactor

	// Appends meet at requests, which has no buffer: what is not received was
	// never taken on.
	requests chan *request
	quit     chan struct{} // closed by Close
	stopped  chan struct{} // closed when run has returned
	close    func() error
	out      *appender // belongs to run until stopped is closed
	entries  atomic.Int64
}

// Open opens the log at path, creates it if it does not exist, and repairs what a crash
// left behind. It makes missing directories with mode 0700 and the file with mode 0600,
// and refuses a file that others could have put there or can write to. It fails with
// ErrCorrupt if the log is not what it was, in a way that no crash explains.
func Open(path string, o Options) (*Log, Recovery, error) {
	l, r, err := open(path, o)
	if err != nil {
		return nil, Recovery{}, &Error{"open", path, err}
	}
	return l, r, nil
}

func open(path string, o Options) (*Log, Recovery, error) {
	if err := o.complete(); err != nil {
		return nil, Recovery{}, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, Recovery{}, err
	}
	self, err := thisProcess()
	if err != nil {
		return nil, Recovery{}, err
	}
	f, err := openFile(path)
	if err != nil {
		return nil, Recovery{}, err
	}
	a := &appender{
		path: path, file: osFile{f}, sync: o.Sync, self: self, now: o.Now,
		tail: newChain(), calls: openCalls{},
	}
	recovery, err := a.recover()
	if err != nil {
		return nil, Recovery{}, errors.Join(err, f.Close())
	}
	return start(a, o.Redactor), recovery, nil
}

// start gives a to a goroutine of its own.
func start(a *appender, r *Redactor) *Log {
	l := &Log{
		path: a.path, redactor: r, out: a,
		requests: make(chan *request),
		quit:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	l.entries.Store(int64(a.tail.seq))
	l.close = sync.OnceValue(l.shutdown)
	go l.run()
	return l
}

// Path is the absolute path of the log.
func (l *Log) Path() string { return l.path }

// Entries is how many entries the log had when this process last wrote to it, those of
// other processes included.
func (l *Log) Entries() int64 { return l.entries.Load() }

// Append writes one entry and returns it as it was written. If the log's sync
// mode asks for it the entry is on disk when Append returns.
//
// After an error the caller must not do what the entry would have recorded. The
// entry is then not in the log, with one exception: when ctx ends while the disk
// is busy with the entry, it may still get there.
func (l *Log) Append(ctx context.Context, rec Record) (Entry, error) {
	p, err := l.Submit(ctx, rec)
	if err != nil {
		return Entry{}, err
	}
	return p.Wait(ctx)
}

// Redacted is v as the log would keep it, as JSON without secrets.
func (l *Log) Redacted(v any) (json.RawMessage, error) { return l.redactor.JSON(v) }

// RedactedText is text as the log would keep it.
func (l *Log) RedactedText(text string) string { return l.redactor.String(text) }

// Submit is the first half of Append: it hands one entry over and does not wait for
// the disk. Entries come into the log in the order in which Submit returned. After an
// error the entry is not in the log.
func (l *Log) Submit(ctx context.Context, rec Record) (*Pending, error) {
	r, err := l.submit(ctx, rec)
	if err != nil {
		return nil, l.failed(err)
	}
	return &Pending{l, r}, nil
}

func (l *Log) submit(ctx context.Context, rec Record) (*request, error) {
	e, err := l.entry(rec)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &request{entry: e, done: make(chan error, 1)}
	select {
	case l.requests <- r:
		return r, nil
	case <-l.quit:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *Log) failed(err error) error { return &Error{"append to", l.path, err} }

// A Pending is an entry on its way to the disk. Nothing that it records may be done
// before Wait has said that it is there.
type Pending struct {
	log *Log
	*request
}

// Wait is the second half of Append, and is called once.
func (p *Pending) Wait(ctx context.Context) (Entry, error) {
	var err error
	select {
	case err = <-p.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return Entry{}, p.log.failed(err)
	}
	return p.entry, nil
}

// entry turns a record into an entry without secrets.
func (l *Log) entry(rec Record) (Entry, error) {
	switch rec.Kind {
	case KindDecision, KindEnd, KindRefused, KindAnswer, KindConnection, KindSession, KindRules, KindStart, KindStop:
	default:
		return Entry{}, fmt.Errorf("a record of kind %q: the log writes recovered and interrupted itself", rec.Kind)
	}
	e := Entry{
		Kind: rec.Kind, Peer: rec.Peer,
		Session: strings.ToValidUTF8(rec.Session, "\uFFFD"),
		Call:    strings.ToValidUTF8(rec.Call, "\uFFFD"),
		Agent:   l.redactor.String(rec.Agent),
		Tool:    l.redactor.String(rec.Tool),
		Digest:  rec.Digest,
	}
	if rec.Data == nil {
		return e, nil
	}
	data, err := l.redactor.JSON(rec.Data)
	e.Data = data
	return e, err
}

// maxBatch bounds how many appends share one write.
const maxBatch = 256

// run is the goroutine that writes. While it waits for the disk, appends queue up
// at requests; it then takes all of them at once (group commit).
func (l *Log) run() {
	defer close(l.stopped)
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case r := <-l.requests:
			l.commit(l.gather(r))
			if l.out.due != nil {
				quiet.Reset(markDelay)
			}
		case <-quiet.C:
			l.out.markLate()
		case <-l.quit:
			return
		}
	}
}

func (l *Log) gather(first *request) []*request {
	batch := []*request{first}
	for len(batch) < maxBatch {
		select {
		case r := <-l.requests:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

func (l *Log) commit(batch []*request) {
	answer := func(err error) {
		for _, r := range batch {
			r.done <- cmp.Or(r.err, err)
		}
	}
	err := l.out.append(batch)
	l.entries.Store(int64(l.out.tail.seq))
	answer(err)
}

// Close makes every entry durable and closes the file. Appends that have not
// returned by then fail with ErrClosed. Closing again does nothing and returns
// the same.
func (l *Log) Close() error {
	if err := l.close(); err != nil {
		return &Error{"close", l.path, err}
	}
	return nil
}

func (l *Log) shutdown() error {
	close(l.quit)
	<-l.stopped
	return errors.Join(l.out.settle(), l.out.file.Close())
}
