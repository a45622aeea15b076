package assemble

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/statedir"
)

// verdicts remember which files of settings hold a token, so that `sandgate run` need not read
// them each time. They are believed as far as the survey's index: the content of a file changes
// only together with its change time, which no program can set (inode(7)). A file whose
// identity, size and times are not those that were seen is read again, and so is each on a
// file system that keeps no such times.
//
// The file holds no name and no content. An entry that cannot be read or written does
// not count.
type verdicts struct {
	path string

	mu    sync.Mutex
	known map[fileState]bool
	used  map[fileState]bool // of this process
	added bool
	keeps map[uint64]bool // devices, by whether their file system keeps change times
	now   func() time.Time
}

// A fileState is a file with one content.
type fileState struct {
	Dev, Ino                           uint64
	Size                               int64
	Ctime, CtimeNsec, Mtime, MtimeNsec int64
}

const (
	verdictsFormat = "sandgate-verdicts-1\n"
	maxVerdicts    = 4096
	verdictsFile   = maxVerdicts*(7*8+1) + 1024
	settling       = 2 * time.Second // times are as fine as a tick, or as coarse as two seconds
)

// openVerdicts reads what earlier processes have seen.
func openVerdicts() *verdicts {
	v := &verdicts{known: map[fileState]bool{}, used: map[fileState]bool{}, keeps: map[uint64]bool{}, now: time.Now}
	path, err := statedir.Path("verdicts")
	if err != nil {
		return v
	}
	v.path = path
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return v
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 || st.Size > verdictsFile {
		return v
	}
	b := make([]byte, st.Size)
	if _, err := f.ReadAt(b, 0); err != nil || len(b) < sha256.Size {
		return v
	}
	sum, body := b[:sha256.Size], b[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return v // cut off by a loss of power
	}
	r, ok := bytes.CutPrefix(body, verdictsHead())
	if !ok {
		return v // of another version, which may judge otherwise
	}
	const size = 7*8 + 1
	for ; len(r) >= size; r = r[size:] {
		var s fileState
		if _, err := binary.Decode(r, binary.LittleEndian, &s); err != nil {
			return v
		}
		v.known[s] = r[size-1] == 1
	}
	return v
}

// verdictsHead names the format and the program: another version may judge otherwise.
func verdictsHead() []byte {
	var st unix.Stat_t
	_ = unix.Stat("/proc/self/exe", &st) // without it the size is 0, for all of them alike
	b := []byte(verdictsFormat)
	for _, n := range []uint64{st.Dev, st.Ino, uint64(st.Ctim.Nano()), uint64(st.Size)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// Holds reports what look would of the file at path, which was found to be st.
func (v *verdicts) Holds(path string, st fs.FileInfo, look func() bool) bool {
	before, dev, ok := stateOf(st)
	if !ok || !v.trusts(path, dev) {
		return look()
	}
	v.mu.Lock()
	holds, known := v.known[before]
	v.used[before] = true
	v.mu.Unlock()
	if known {
		return holds
	}
	now := v.now()
	holds = look()
	again, err := os.Lstat(path)
	if err != nil {
		return holds
	}
	// If it is the same before and after, it is the file that was read: a rename changes the
	// change time too.
	if after, _, ok := stateOf(again); ok && after == before && time.Unix(before.Ctime, before.CtimeNsec).Before(now.Add(-settling)) {
		v.mu.Lock()
		v.known[before], v.added = holds, true
		v.mu.Unlock()
	}
	return holds
}

func stateOf(info fs.FileInfo) (s fileState, dev uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return s, 0, false
	}
	return fileState{st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Sec, st.Mtim.Nsec}, st.Dev, true
}

// trusts reports whether the file system of path keeps change times as Linux's own local ones
// do, and outlives the process that mounted it.
func (v *verdicts) trusts(path string, dev uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	keeps, asked := v.keeps[dev]
	if asked {
		return keeps
	}
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) == nil {
		switch fs.Type {
		case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
			keeps = true
		}
	}
	v.keeps[dev] = keeps
	return keeps
}

// keep writes the new entries, without waiting for the disk: its checksum shows a torn
// write.
func (v *verdicts) keep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.added || v.path == "" {
		return
	}
	if len(v.known) > maxVerdicts {
		maps.DeleteFunc(v.known, func(s fileState, _ bool) bool { return !v.used[s] })
	}
	if len(v.known) > maxVerdicts {
		return
	}
	body := verdictsHead()
	for s, holds := range v.known {
		body, _ = binary.Append(body, binary.LittleEndian, s) // of fixed size: it cannot fail
		b := byte(0)
		if holds {
			b = 1
		}
		body = append(body, b)
	}
	sum := sha256.Sum256(body)
	dir := filepath.Dir(v.path)
	temp := filepath.Join(dir, "new-"+rand.Text())
	if os.WriteFile(temp, append(sum[:], body...), 0o600) != nil || os.Rename(temp, v.path) != nil {
		_ = os.Remove(temp) // it may not be there
	}
	v.added = false
}
