package changes

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// objects are contents by their SHA-256: those that are small in packs, each of the others in
// a file, compressed, or sharing the blocks of what it is the content of (reflinks) where the file
// system can. Such a file counts as a whole: once the other one changes, its blocks are its own.
type objects struct {
	dir     string
	packs   *packs
	added   *int64       // bytes that were put
	unshare *atomic.Bool // the file system shares no blocks between these directories
}

func newObjects(dir string, added *int64) objects {
	return objects{dir, &packs{dir: filepath.Join(dir, "packs")}, added, new(atomic.Bool)}
}

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}}

func (o objects) file(hash string) string { return filepath.Join(o.dir, hash[:2], hash[2:]) }

// shared is the file of a content that shares its blocks.
func (o objects) shared(hash string) string { return o.file(hash) + sharedSuffix }

const sharedSuffix = ".shared"

func sumOf(hash string) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(hash)) // a hash of ours
	return sum
}

func (o objects) has(hash string) bool {
	if o.packs.has(sumOf(hash)) {
		return true
	}
	for _, file := range []string{o.file(hash), o.shared(hash)} {
		// A compressed content has some bytes always, and what shares blocks is large.
		if info, err := os.Lstat(file); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// zstdMagic begins every compressed content (RFC 8878, 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// seemsWhole reports whether a content of size bytes is there and begins as it did. It costs little,
// and finds what a loss of power leaves: a file without a byte, or with zeros.
func (o objects) seemsWhole(hash string, size int64) bool {
	sum := sumOf(hash)
	if o.packs.has(sum) {
		b, err := o.packs.get(sum)
		if err == nil && bytes.HasPrefix(b, zstdMagic) {
			return true
		}
		o.packs.lose(sum)
	}
	if info, err := os.Lstat(o.shared(hash)); err == nil && info.Size() == size {
		return true
	}
	var begins [4]byte
	f, err := os.Open(o.file(hash))
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, begins[:])
	}
	if err == nil && bytes.Equal(begins[:], zstdMagic) {
		return true
	}
	o.lose(hash)
	return false
}

// lose forgets a content that is damaged: it is put anew when it is met again.
func (o objects) lose(hash string) {
	o.packs.lose(sumOf(hash))
	_ = os.Remove(o.file(hash))
	_ = os.Remove(o.shared(hash))
}

// whole reports whether a content is there and unchanged.
func (o objects) whole(hash string) bool {
	_, err := o.get(hash)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.lose(hash)
	}
	return err == nil
}

// errGrown means that a file is larger than what is kept.
var errGrown = errors.New("it has grown")

// keep stores the content of a file, or fails with errGrown.
func (o objects) keep(f *os.File, size, limit int64) (hash string, err error) {
	if size > maxPacked && !o.unshare.Load() {
		if hash, err = o.share(f, limit); err == nil || errors.Is(err, errGrown) {
			return hash, err
		}
		o.unshare.Store(true)
	}
	var content bytes.Buffer
	if n, err := content.ReadFrom(io.LimitReader(f, limit+1)); err != nil || n > limit {
		return "", cmp.Or(err, errGrown)
	}
	return o.put(content.Bytes())
}

// share stores a second file with the same blocks: they are of one moment, even if the first is
// written meanwhile.
func (o objects) share(f *os.File, limit int64) (hash string, err error) {
	dir := filepath.Join(o.dir, "00") // what a kill leaves there goes with the next sweep
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name()) // unless it has its name by then
	defer tmp.Close()
	if err := shareBlocks(tmp, f); err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(tmp, limit+1))
	if err == nil && n > limit {
		err = errGrown
	}
	if hash = hex.EncodeToString(sum.Sum(nil)); err != nil || o.has(hash) {
		return hash, err
	}
	if err := os.MkdirAll(filepath.Dir(o.shared(hash)), 0o700); err != nil {
		return "", err
	}
	atomic.AddInt64(o.added, n)
	return hash, os.Rename(tmp.Name(), o.shared(hash))
}

// put stores a content, once.
func (o objects) put(content []byte) (hash string, err error) {
	sum := sha256.Sum256(content)
	if hash = hex.EncodeToString(sum[:]); o.has(hash) {
		return hash, nil
	}
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	packed := e.EncodeAll(content, nil)
	if len(packed) <= maxPacked {
		n, err := o.packs.put(sum, packed)
		atomic.AddInt64(o.added, n)
		return hash, err
	}
	atomic.AddInt64(o.added, int64(len(packed)))
	return hash, o.putFile(o.file(hash), packed)
}

func (o objects) putFile(file string, packed []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(packed)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// get gives a content back. What the disk has made of it otherwise is an error.
func (o objects) get(hash string) ([]byte, error) {
	content, err := os.ReadFile(o.shared(hash))
	if errors.Is(err, fs.ErrNotExist) {
		content, err = o.getPacked(hash)
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("content %s: the file has changed", hash)
	}
	return content, nil
}

func (o objects) getPacked(hash string) ([]byte, error) {
	b, err := o.packs.get(sumOf(hash))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(o.file(hash))
	}
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	content, err := d.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("content %s: %w", hash, err)
	}
	return content, nil
}

// have fails if a content is not there any more, or is another: before anything is written.
func (o objects) have(hashes []string) error {
	if slices.ContainsFunc(hashes, func(hash string) bool { return !o.has(hash) }) {
		o.packs.hears()
	}
	for _, hash := range hashes {
		switch {
		case !o.has(hash):
			return fmt.Errorf("a content that is to be written is not kept any more; look again, since what is kept is bounded: %w", fs.ErrNotExist)
		case !o.whole(hash):
			return fmt.Errorf("a content that is to be written is damaged in %s, as after a loss of power; undo the other files by their names: %w", o.dir, fs.ErrNotExist)
		}
	}
	return nil
}

// total is how many bytes all contents take.
func (o objects) total() (n int64) {
	_ = filepath.WalkDir(o.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// take is how many bytes these contents take.
func (o objects) take(hashes map[string]bool) (n int64) {
	n = o.packs.take(func(sum [sha256.Size]byte) bool { return hashes[hex.EncodeToString(sum[:])] })
	o.each(func(hash, file string) {
		if info, err := os.Lstat(file); err == nil && hashes[hash] {
			n += info.Size()
		}
	})
	return n
}

// sweep removes what is not in use: all of it, or what takes little work to remove.
func (o objects) sweep(inUse map[string]bool, all bool) {
	o.packs.sweep(func(sum [sha256.Size]byte) bool { return inUse[hex.EncodeToString(sum[:])] }, all)
	o.each(func(hash, file string) {
		if !inUse[hash] {
			_ = os.Remove(file)
		}
	})
}

// each calls do for each content that is a file.
func (o objects) each(do func(hash, file string)) {
	files, _ := filepath.Glob(filepath.Join(o.dir, "[0-9a-f][0-9a-f]", "*"))
	for _, file := range files {
		do(filepath.Base(filepath.Dir(file))+strings.TrimSuffix(filepath.Base(file), sharedSuffix), file)
	}
}
