package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// A checkpoint is a place that the log is known to have reached on disk. Open
// starts reading from it, and Verify finds a log that ends before it.
//
// It has a fixed size and is overwritten in place with one write: an append must
// not pay for a second sync, and a checkpoint that is older than the log after a
// loss of power is still true.
type checkpoint struct {
	Version int    `json:"v"`
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	Size    int64  `json:"size"`
	// OpenFrom is where the oldest call without an end begins; Size if none is open.
	OpenFrom int64 `json:"open_from"`
}

// checkpointLen is the size of the file in bytes: below one disk sector, so that
// it is written whole or not at all.
const checkpointLen = 256

func checkpointPath(log string) string { return log + ".checkpoint" }

func (cp checkpoint) encode() ([]byte, error) {
	b, err := json.Marshal(cp)
	if err != nil {
		return nil, err
	}
	pad := checkpointLen - 1 - len(b)
	if pad < 0 {
		return nil, fmt.Errorf("bug: a checkpoint of %d bytes", len(b))
	}
	return append(append(b, bytes.Repeat([]byte{' '}, pad)...), '\n'), nil
}

// readCheckpoint returns the checkpoint of the log at path. The error is
// fs.ErrNotExist if there is no checkpoint, and a *ChainError if it cannot be
// parsed.
func readCheckpoint(path string) (*checkpoint, error) {
	f, err := os.OpenFile(checkpointPath(path), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, checkpointLen+1)
	n, _ := f.Read(b)
	return parseCheckpoint(b[:n])
}

func parseCheckpoint(b []byte) (*checkpoint, error) {
	bad := func(detail string) error { return &ChainError{Fault: FaultCheckpoint, Detail: detail} }
	if len(b) != checkpointLen {
		return nil, bad(fmt.Sprintf("%d bytes instead of %d", len(b), checkpointLen))
	}
	var cp checkpoint
	if err := jsonv2.Unmarshal(b, &cp, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, bad(err.Error())
	}
	if cp.Version != FormatVersion {
		return nil, bad(fmt.Sprintf("format %d, this program reads %d", cp.Version, FormatVersion))
	}
	if len(cp.Hash) != len(ZeroHash) || cp.Size < 0 || cp.OpenFrom < 0 || cp.OpenFrom > cp.Size {
		return nil, bad("its numbers contradict each other")
	}
	return &cp, nil
}

// write puts cp beside the log at path.
func (cp checkpoint) write(path string) error {
	b, err := cp.encode()
	if err != nil {
		return err
	}
	name := checkpointPath(path)
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return atomicfile.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if st, serr := f.Stat(); err == nil && serr == nil && st.Size() > checkpointLen {
		err = f.Truncate(checkpointLen)
	}
	return errors.Join(err, f.Close())
}

// matches checks that c, the place after entry cp.Seq, is the one in cp.
func (cp *checkpoint) matches(c chain) error {
	if c.hash == cp.Hash && c.offset == cp.Size {
		return nil
	}
	return &ChainError{
		Line: c.seq, Offset: c.offset, Fault: FaultCheckpoint,
		Detail: fmt.Sprintf("the checkpoint has %.12s... at byte %d, the log %.12s...", cp.Hash, cp.Size, c.hash),
	}
}

// cut says that a log ends before cp.
func (cp *checkpoint) cut(r Report) error {
	return &ChainError{
		Line: r.Entries + 1, Offset: r.Size, Fault: FaultCut,
		Detail: fmt.Sprintf("the log ends here, and once had %d entries or more", cp.Seq),
	}
}
