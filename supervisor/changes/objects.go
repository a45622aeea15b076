package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// objects are contents by their SHA-256.
type objects struct {
	dir   string
	added *int64 // bytes that were put
}

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}}

func (o objects) file(hash string) string { return filepath.Join(o.dir, hash[:2], hash[2:]) }

// put stores what r gives, once.
func (o objects) put(r io.Reader) (hash string, err error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	hash = hex.EncodeToString(sum[:])
	file := o.file(hash)
	if _, err := os.Lstat(file); err == nil {
		return hash, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return "", err
	}
	packed := e.EncodeAll(content, nil)
	*o.added += int64(len(packed))
	_, err = tmp.Write(packed)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return hash, nil
}

// get gives a content back. What the disk has made of it otherwise is an error.
func (o objects) get(hash string) ([]byte, error) {
	b, err := os.ReadFile(o.file(hash))
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
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("content %s: the file has changed", hash)
	}
	return content, nil
}

// have fails if a content is not there any more.
func (o objects) have(hashes []string) error {
	for _, hash := range hashes {
		if _, err := os.Lstat(o.file(hash)); err != nil {
			return fmt.Errorf("a content that is to be written is not kept any more; look again, since what is kept is bounded: %w", err)
		}
	}
	return nil
}

// total is how many bytes all contents take.
func (o objects) total() (n int64) {
	o.each(func(_ string, size int64) { n += size })
	return n
}

// sweep removes what is not in use.
func (o objects) sweep(inUse map[string]bool) {
	o.each(func(hash string, _ int64) {
		if !inUse[hash] {
			_ = os.Remove(o.file(hash))
		}
	})
}

func (o objects) each(do func(hash string, size int64)) {
	_ = filepath.WalkDir(o.dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			do(filepath.Base(filepath.Dir(file))+d.Name(), info.Size())
		}
		return nil
	})
}
