package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// A Recovery says what Open found that a clean shutdown would not have left. The
// log itself has entries that say the same.
type Recovery struct {
	// Torn is the damaged end of the log, nil if it had none.
	Torn *Torn `json:"torn,omitempty"`
	// Interrupted holds the decisions of calls that never ended, whose process is
	// gone. Each now has an entry of KindInterrupted.
	Interrupted []Entry `json:"interrupted,omitempty"`
	// Checkpoint says why the checkpoint could not be used, or is "". A log without one may have
	// lost its end unnoticed.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Clean reports whether there was nothing to recover.
func (r Recovery) Clean() bool {
	return r.Torn == nil && len(r.Interrupted) == 0 && r.Checkpoint == ""
}

// Torn describes the bytes that a crash left at the end of a log and that are not a complete
// entry.
type Torn struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// File is where the bytes are kept, a name beside the log.
	File   string `json:"file"`
	Fault  Fault  `json:"fault"`
	Detail string `json:"detail"`
}

// recover brings the appender to the end of the log and puts in order what a
// crash left behind.
func (a *appender) recover() (Recovery, error) {
	var r Recovery
	err := a.locked(func() error {
		size, err := a.size()
		if err != nil {
			return err
		}
		if r.Checkpoint, err = a.resume(size); err != nil {
			return err
		}
		if err := a.readOn(size); err != nil {
			return err
		}
		if a.owed == nil {
			a.owed = a.findOwed()
		}
		r.Torn = a.owed
		if err := a.acknowledge(); err != nil {
			return err
		}
		if err := a.noteCheckpoint(r.Checkpoint); err != nil {
			return err
		}
		if r.Interrupted, err = a.interrupt(); err != nil {
			return err
		}
		return a.settleLocked()
	})
	return r, err
}

// resume moves to the place up to which the checkpoint vouches for the log, or to its
// start if there is no usable checkpoint; then it returns the reason.
func (a *appender) resume(size int64) (why string, err error) {
	cp, err := readCheckpoint(a.path)
	var bad *ChainError
	switch {
	case errors.Is(err, fs.ErrNotExist) && size == 0:
		a.checkpointErr = err // a new log: have settle make one
		return "", nil
	case errors.Is(err, fs.ErrNotExist):
		a.checkpointErr = err
		return "missing", nil
	case errors.As(err, &bad):
		a.checkpointErr = err
		return bad.Detail, nil
	case err != nil:
		return "", err
	case size < cp.Size:
		return "", corrupt(&ChainError{
			Line: cp.Seq, Offset: size, Fault: FaultCut,
			Detail: fmt.Sprintf("the log has %d bytes, and once had %d with %d entries", size, cp.Size, cp.Seq),
		})
	}
	return "", a.resumeAt(cp)
}

// resumeAt reads from the oldest open call to the checkpoint, and fails if the
// chain does not lead to it.
func (a *appender) resumeAt(cp *checkpoint) error {
	from, err := a.placeAt(cp)
	if err != nil {
		return corrupt(&ChainError{Line: cp.Seq, Offset: cp.OpenFrom, Fault: FaultCheckpoint, Detail: err.Error()})
	}
	part := io.NewSectionReader(a.file, from.offset, cp.Size-from.offset)
	a.tail, err = walk(from, part, func(e Entry, from, _ chain) error {
		a.calls.apply(e, from.offset)
		return nil
	})
	if err == nil {
		err = cp.matches(a.tail)
	}
	var bad *ChainError
	if errors.As(err, &bad) {
		return corrupt(bad)
	}
	a.marked = cp.Seq
	return err
}

// placeAt is the place at cp.OpenFrom. What precedes it is taken on trust of the
// line found there: that this line leads to the checkpoint proves it.
func (a *appender) placeAt(cp *checkpoint) (chain, error) {
	if cp.OpenFrom == cp.Size {
		return chain{cp.Seq, cp.Hash, cp.Size}, a.endsWith(cp)
	}
	line, err := newLineReader(io.NewSectionReader(a.file, cp.OpenFrom, cp.Size-cp.OpenFrom)).read()
	if err != nil {
		return chain{}, err
	}
	e, _, err := parseLine(line)
	return chain{e.Seq - 1, e.Prev, cp.OpenFrom}, err
}

// endsWith checks that the bytes before the checkpoint are the end of its entry.
func (a *appender) endsWith(cp *checkpoint) error {
	if cp.Seq == 0 {
		return nil
	}
	want := []byte(hashMark + cp.Hash + hashEnd + "\n")
	got := make([]byte, len(want))
	if _, err := a.file.ReadAt(got, cp.Size-int64(len(want))); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New("no entry with the checkpoint's hash ends where the checkpoint says")
	}
	return nil
}

// setAside keeps the bytes from the bad line on in a file of their own and cuts them
// off. It refuses to touch bytes that were known to be sound: a crash does not damage
// those.
func (a *appender) setAside(bad *ChainError, size int64) error {
	if !a.crashed(bad) {
		return corrupt(bad)
	}
	b := make([]byte, size-bad.Offset)
	if _, err := a.file.ReadAt(b, bad.Offset); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	torn := describe(b)
	torn.Fault, torn.Detail = bad.Fault, bad.Detail
	// The name follows from place and content: after a crash before the cut, the
	// next attempt makes the same file again.
	name := fmt.Sprintf("%s%.8s", a.tornPrefix(bad.Line), torn.SHA256)
	torn.File = filepath.Base(name)
	if err := atomicfile.WriteFile(name, b, 0o600); err != nil {
		return err
	}
	if err := a.file.Truncate(bad.Offset); err != nil {
		return err
	}
	a.owed = torn
	return nil
}

func describe(b []byte) *Torn {
	sum := sha256.Sum256(b)
	return &Torn{Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// tornPrefix begins the names of files with what stood in the place of entry seq.
func (a *appender) tornPrefix(seq uint64) string {
	return fmt.Sprintf("%s.torn-%d-", a.path, seq)
}

// findOwed looks for a file that was set aside by a process which died, or found
// the disk full, before it could say so in the log: its entry would be the next.
func (a *appender) findOwed() *Torn {
	dir, prefix := filepath.Split(a.tornPrefix(a.tail.seq + 1))
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), prefix) || !n.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, n.Name()))
		if err != nil {
			continue
		}
		torn := describe(b)
		torn.File, torn.Fault, torn.Detail = n.Name(), FaultTorn, "set aside earlier"
		return torn
	}
	return nil
}

// acknowledge chains in the entry for what was set aside.
func (a *appender) acknowledge() error {
	if a.owed == nil {
		return nil
	}
	if err := a.note(KindRecovered, Entry{}, a.owed); err != nil {
		return err
	}
	a.owed = nil
	return nil
}

// crashed reports whether a crash explains the bad line: it lies behind what the
// checkpoint says was on disk. Without a checkpoint only an unfinished last line
// is explained.
func (a *appender) crashed(bad *ChainError) bool {
	if bad.Fault == FaultVersion {
		return false
	}
	cp, err := readCheckpoint(a.path)
	if err != nil {
		return bad.Fault == FaultTorn
	}
	return bad.Offset >= cp.Size
}

func (a *appender) noteCheckpoint(why string) error {
	if why == "" {
		return nil
	}
	return a.note(KindRecovered, Entry{}, map[string]string{"fault": string(FaultCheckpoint), "detail": why})
}

// interrupt ends the calls whose writer is dead, and returns their decisions.
func (a *appender) interrupt() ([]Entry, error) {
	dead := a.calls.where(func(e Entry) bool { return a.self.seesDead(e.Writer) })
	for _, e := range dead {
		cause := map[string]any{"decision_seq": e.Seq, "reason": "the process that ran the call is gone"}
		if err := a.note(KindInterrupted, e, cause); err != nil {
			return nil, err
		}
	}
	return dead, nil
}

// note appends an entry of the log's own, about the call of e if it has one.
func (a *appender) note(k Kind, e Entry, data any) error {
	b, err := encodeJSON(data)
	if err != nil {
		return err
	}
	e.Kind, e.Data = k, b
	r := &request{entry: e}
	durable, err := a.write([]*request{r})
	if durable {
		a.mark(a.checkpoint())
	}
	return errors.Join(err, r.err)
}
