package tripwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A supervisor can die between a plant and its undoing. So each sandbox that may write
// has a file that records the state before: one byte for whether an action runs, and
// then a journalBody. The owner holds a lock on it (flock(2)) for as long as it lives,
// and removes it with the sandbox. A file that no process holds belongs to a dead one;
// Recover does what that had left to do.
type journal struct {
	File *os.File
	size int64 // without what note has written
}

const (
	JournalRuns  = 'r'
	journalRests = '.'
)

// journalBody has what a sweep without the sandbox needs.
type journalBody struct {
	Paths       map[string]sandboxprofile.Rights `json:"paths"`
	Protect     []string                         `json:"protect"`
	Hide        []string                         `json:"hide"`
	Scratch     []string                         `json:"scratch"`
	UnixSockets []string                         `json:"unix_sockets"`
	Covered     map[string][3]uint64             `json:"covered"` // device, inode, birth
	Known       []string                         `json:"known"`
	Config      map[string][]string              `json:"config"`
	Call        string                           `json:"call"`
}

// newJournal writes the file for a sandbox that rests. It survives the process,
// and not the machine: it is not synced.
func (g *Guard) newJournal(w *Baseline) (*journal, error) {
	if g.store == nil {
		return nil, nil
	}
	body := journalBody{
		Paths: w.profile.Paths, Protect: w.profile.Protect, Hide: w.profile.Hide, Scratch: w.profile.Scratch, UnixSockets: w.profile.UnixSockets,
		Covered: map[string][3]uint64{}, Config: w.config,
	}
	for path, id := range w.covered {
		body.Covered[path] = [3]uint64{id.dev, id.ino, uint64(id.born)}
	}
	for key := range w.known {
		body.Known = append(body.Known, key)
	}
	slices.Sort(body.Known)
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("confine: bug: %w", err)
	}
	for range 8 {
		if j, err := g.createJournal(append([]byte{journalRests}, b...)); j != nil || err != nil {
			return j, err
		}
	}
	return nil, errors.New("confine: journal: another process removes it each time")
}

// createJournal gives nil if another process took the file for one of the dead,
// in the moment before it was locked.
func (g *Guard) createJournal(content []byte) (*journal, error) {
	f, err := os.CreateTemp(g.store.Running(), "sandbox-")
	if err != nil {
		return nil, fmt.Errorf("confine: %w: %w", confine.ErrJournal, err)
	}
	var st unix.Stat_t
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), err == nil && st.Nlink == 0:
		f.Close()
		return nil, nil
	case err != nil:
		(&journal{File: f}).remove()
		return nil, fmt.Errorf("confine: lock journal: %w", err)
	}
	if _, err := f.Write(content); err != nil {
		(&journal{File: f}).remove()
		return nil, fmt.Errorf("confine: %w: %w", confine.ErrJournal, err)
	}
	return &journal{f, int64(len(content))}, nil
}

// Notes opens w's journal for what is to be added at its end when the sandbox has ended whose
// supervisor was killed: a wire.Ended. It does not share the journal's lock.
func (w *Baseline) Notes() (*os.File, error) {
	if w.Journal == nil {
		return nil, errors.New("confine: there is no journal")
	}
	return os.OpenFile(w.Journal.File.Name(), os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
}

// Mark notes whether an action runs.
func (j *journal) Mark(state byte) error {
	if j == nil {
		return nil
	}
	if _, err := j.File.WriteAt([]byte{state}, 0); err != nil {
		return fmt.Errorf("confine: %w: %w", confine.ErrJournal, err)
	}
	return nil
}

// end removes the file.
func (j *journal) end() {
	if j != nil {
		j.remove()
	}
}

func (j *journal) remove() {
	_ = os.Remove(j.File.Name()) // one that stays is found to rest by Recover
	j.File.Close()
}

// Recover undoes what supervisors that died had left to undo. What it cannot undo
// bars the calls that could reach it.
func (g *Guard) Recover() ([]confine.Planted, error) {
	if g.store == nil {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(g.store.Running(), "sandbox-*"))
	if err != nil {
		return nil, fmt.Errorf("confine: recover: %w", err)
	}
	var all []confine.Planted
	var errs []error
	for _, name := range names {
		planted, err := g.recover(name)
		all, errs = append(all, planted...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (g *Guard) recover(name string) ([]confine.Planted, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // its owner has just ended
	}
	if err != nil {
		return nil, fmt.Errorf("confine: recover: %w", err)
	}
	j := &journal{File: f}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, nil // its owner lives
	}
	w, left, err := j.baseline()
	if err != nil || w == nil {
		// Nothing ran, or nothing had been written yet: nothing was planted.
		j.remove()
		return nil, err
	}
	w.Journal, w.closed = j, true
	err = clearTemporary(w.profile, left)
	planted, settleErr := g.Settle(w)
	return planted, errors.Join(err, settleErr)
}

// baseline reads the journal back, nil if no action ran, and the name of a file that init may
// have left.
func (j *journal) baseline() (_ *Baseline, left string, _ error) {
	b, err := io.ReadAll(j.File)
	if err != nil {
		return nil, "", fmt.Errorf("confine: recover: %w", err)
	}
	if len(b) == 0 || b[0] != JournalRuns {
		return nil, "", nil
	}
	var body journalBody
	parts := json.NewDecoder(bytes.NewReader(b[1:]))
	if err := parts.Decode(&body); err != nil {
		return nil, "", fmt.Errorf("confine: recover %s: %w", j.File.Name(), err)
	}
	w := &Baseline{
		profile: sandboxprofile.Profile{Paths: body.Paths, Protect: body.Protect, Hide: body.Hide, Scratch: body.Scratch, UnixSockets: body.UnixSockets},
		covered: map[string]coveredFile{}, known: map[string]bool{}, config: body.Config, call: body.Call,
	}
	for path, id := range body.Covered {
		w.covered[path] = coveredFile{ident{id[0], id[1]}, int64(id[2])}
	}
	for _, key := range body.Known {
		w.known[key] = true
	}
	left, w.ended = notesIn(b[1+parts.InputOffset():])
	return w, left, nil
}
