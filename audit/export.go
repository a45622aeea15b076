package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// ExportFormat is the "format" of every manifest that this package writes.
const ExportFormat = "sandgate-audit-export/1"

// ManifestName is the file of an export that describes the other.
const ManifestName = "manifest.json"

// A Manifest says what an export holds and where it is from. With it the export
// can be held against the log, and against any copy of one of the log's hashes.
type Manifest struct {
	Format  string    `json:"format"`
	Created time.Time `json:"created"`
	Source  string    `json:"source"` // path of the log
	Log     Report    `json:"log"`    // of the whole log, which was verified to its end
	Filter  Filter    `json:"filter"`

	File    string `json:"file"`    // name of the entries' file, beside the manifest
	Content string `json:"content"` // ContentLines, or what the encoder is called
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // of the file
	Entries uint64 `json:"entries"`
	First   uint64 `json:"first"` // number of the first entry, 0 if there is none
	Last    uint64 `json:"last"`
	// Complete: every entry from First to Last is there, so that the chain can be
	// walked in the export itself, from Prev to Head.
	Complete bool   `json:"complete"`
	Prev     string `json:"prev,omitempty"` // hash of the entry before First
	Head     string `json:"head,omitempty"` // hash of Last
}

// ContentLines are the entries as they stand in the log.
const ContentLines = "jsonl"

// An Encoder writes entries in some form.
type Encoder interface {
	Content() string // the form's name, which is the file's suffix too
	Begin(io.Writer) error
	Encode(io.Writer, Entry) error
}

// Lines is the Encoder of ContentLines.
type Lines struct{}

// Content implements Encoder.
func (Lines) Content() string { return ContentLines }

// Begin implements Encoder.
func (Lines) Begin(io.Writer) error { return nil }

// Encode implements Encoder. The bytes are those of the log: their hash says so.
func (Lines) Encode(w io.Writer, e Entry) error {
	want := e.Hash
	line, err := e.seal()
	if err == nil && e.Hash != want {
		err = fmt.Errorf("bug: entry %d would not be what it is in the log", e.Seq)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}

// Export verifies the log at path and writes the entries that f chooses, and a
// Manifest, to the directory dir, which it makes. It holds one entry at a time. A
// log that is broken is not exported: the error has a *ChainError.
func Export(path, dir string, f Filter, enc Encoder, now time.Time) (Manifest, error) {
	m := Manifest{Format: ExportFormat, Created: now.UTC(), Source: path, Filter: f, Content: enc.Content(), File: "entries." + enc.Content()}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = m.write(path, dir, enc)
	}
	if err != nil {
		return m, fmt.Errorf("audit: export %q: %w", path, err)
	}
	return m, nil
}

func (m *Manifest) write(path, dir string, enc Encoder) error {
	out, err := os.OpenFile(filepath.Join(dir, m.File), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	x := exporter{m: m, enc: enc, w: &counter{w: out, sum: sha256.New()}}
	err = enc.Begin(x.w)
	if err == nil {
		m.Log, err = verifyFileWith(path, x.entry)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	m.Bytes, m.SHA256 = x.w.n, hex.EncodeToString(x.w.sum.Sum(nil))
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, ManifestName), append(text, '\n'), 0o600)
}

// An exporter takes the entries that a verification comes by.
type exporter struct {
	m   *Manifest
	enc Encoder
	w   *counter
}

func (x *exporter) entry(e Entry) error {
	m := x.m
	if !m.Filter.Match(e) {
		return nil
	}
	if m.Entries == 0 {
		m.First, m.Prev, m.Complete = e.Seq, e.Prev, true
	} else if e.Seq != m.Last+1 {
		m.Complete = false
	}
	m.Entries, m.Last, m.Head = m.Entries+1, e.Seq, e.Hash
	return x.enc.Encode(x.w, e)
}

// A counter counts and hashes what passes.
type counter struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.sum.Write(b[:n])
	return n, err
}

// VerifyExport holds an export against its manifest: the file's bytes, each
// entry's hash, and the chain where the export is complete. It does not need the
// log. Whether the log still has the manifest's hashes is for Verify.
func VerifyExport(dir string) (Manifest, error) {
	m, err := readManifest(filepath.Join(dir, ManifestName))
	if err == nil {
		err = m.verify(dir)
	}
	if err != nil {
		return m, fmt.Errorf("audit: verify export %q: %w", dir, err)
	}
	return m, nil
}

// maxManifest bounds a manifest in bytes.
const maxManifest = 16 << 20

func readManifest(path string) (Manifest, error) {
	var m Manifest
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return m, err
	}
	return m, m.parse(b)
}

func (m *Manifest) parse(b []byte) error {
	if err := jsonv2.Unmarshal(b, m, jsonv2.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", ManifestName, err)
	}
	if m.Format != ExportFormat {
		return fmt.Errorf("%s: format %q, this program reads %q", ManifestName, m.Format, ExportFormat)
	}
	if m.File != filepath.Base(m.File) || m.File == ".." || m.File == "." {
		return fmt.Errorf("%s: %q is not a file name", ManifestName, m.File)
	}
	return nil
}

// An ExportError says in what an export is not what its manifest says.
type ExportError struct {
	What       string // "bytes", "sha256", "entries", ...
	Want, Have any
}

func (e *ExportError) Error() string {
	return fmt.Sprintf("%s: the manifest says %v, the export has %v", e.What, e.Want, e.Have)
}

func (m *Manifest) verify(dir string) error {
	f, err := os.Open(filepath.Join(dir, m.File))
	if err != nil {
		return err
	}
	defer f.Close()
	c := &counter{w: io.Discard, sum: sha256.New()}
	body := io.TeeReader(f, c)
	if m.Content == ContentLines {
		err = m.verifyLines(body)
	}
	if _, rest := io.Copy(io.Discard, body); rest != nil {
		return rest
	}
	if err != nil {
		return err
	}
	return firstDifference(
		ExportError{"bytes", m.Bytes, c.n},
		ExportError{"sha256", m.SHA256, hex.EncodeToString(c.sum.Sum(nil))})
}

func firstDifference(list ...ExportError) error {
	for _, e := range list {
		if e.Want != e.Have {
			return &e
		}
	}
	return nil
}

// verifyLines checks each entry by itself, and how they follow one another where
// none is left out.
func (m *Manifest) verifyLines(r io.Reader) error {
	have := Manifest{Complete: true}
	at := chain{seq: m.First - 1, hash: m.Prev}
	lines := newLineReader(r)
	for {
		line, err := lines.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		e, fault, err := parseLine(line)
		if err != nil {
			return &ChainError{Line: have.Entries + 1, Offset: at.offset, Fault: fault, Detail: err.Error()}
		}
		if have.Entries == 0 {
			have.First, have.Prev = e.Seq, e.Prev
		}
		if m.Complete {
			if _, err := at.next(line); err != nil {
				return err
			}
		} else {
			at.offset += int64(len(line))
		}
		have.Entries, have.Last, have.Head = have.Entries+1, e.Seq, e.Hash
	}
	return firstDifference(
		ExportError{"entries", m.Entries, have.Entries}, ExportError{"first", m.First, have.First}, ExportError{"last", m.Last, have.Last},
		ExportError{"prev", m.Prev, have.Prev}, ExportError{"head", m.Head, have.Head})
}
