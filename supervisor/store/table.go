package store

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	jsonv2 "github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/approval"
)

// schema is the layout of the file:
//
//	meta     "schema" -> "1"
//	         "sum"    -> the exclusive or of the SHA-256 of every row
//	answers  scope NUL effect NUL fingerprint NUL holder -> a record as JSON
//
// bbolt checks its two head pages and nothing below. The sum notices a row that
// was changed or lost in any other way: a deny that is gone must not go unnoticed.
const schema = "1"

// maxRow bounds a record in bytes: it holds at most one message of an agent,
// escaped, and one of an operator.
const maxRow = 128 << 20

var (
	metaBucket    = []byte("meta")
	answersBucket = []byte("answers")
	schemaKey     = []byte("schema")
	sumKey        = []byte("sum")
)

// A record is a remembered answer in the file.
type record struct {
	Scope       approval.Scope  `json:"scope"`
	Holder      string          `json:"holder,omitempty"`
	Effect      approval.Effect `json:"effect"`
	Fingerprint string          `json:"fingerprint"`
	approval.Memory
}

// checkKey refuses what has no place in a file: an answer for one session would
// come back to life in another of the same id, and only allow and deny are
// verdicts.
func checkKey(k approval.Key) error {
	if k.Scope != approval.Agent && k.Scope != approval.Global {
		return fmt.Errorf("scope %q is not kept in a file", k.Scope)
	}
	if k.Effect != approval.Allow && k.Effect != approval.Deny {
		return fmt.Errorf("an answer is allow or deny, not %q", k.Effect)
	}
	return nil
}

func rowKey(k approval.Key) []byte {
	return fmt.Appendf(nil, "%s\x00%s\x00%x\x00%s", k.Scope, k.Effect, k.Fingerprint, k.Holder)
}

func rowValue(m approval.Memory) ([]byte, error) {
	return json.Marshal(record{m.Key.Scope, m.Key.Holder, m.Key.Effect, hex.EncodeToString(m.Key.Fingerprint[:]), m})
}

// parseRow reads a row. The name of a row says what it is for a second time.
func parseRow(name, value []byte) (approval.Memory, error) {
	var r record
	if err := jsonv2.Unmarshal(value, &r, jsonv2.RejectUnknownMembers(true)); err != nil {
		return approval.Memory{}, fmt.Errorf("%w: row %q: %w", ErrCorrupt, name, err)
	}
	m := r.Memory
	m.Key = approval.Key{Scope: r.Scope, Holder: r.Holder, Effect: r.Effect}
	fingerprint, err := hex.DecodeString(r.Fingerprint)
	copy(m.Key.Fingerprint[:], fingerprint)
	if err != nil || checkKey(m.Key) != nil || !bytes.Equal(rowKey(m.Key), name) {
		return approval.Memory{}, fmt.Errorf("%w: row %q does not match its name", ErrCorrupt, name)
	}
	return m, nil
}

// A table is the content of the file within one transaction.
type table struct {
	meta, rows *bbolt.Bucket
	answers    answers
	sum        sum
}

// A sum is the exclusive or of the digests of rows, so that adding a row and
// taking it away are the same operation.
type sum [sha256.Size]byte

func (s *sum) toggle(name, value []byte) {
	h := sha256.New()
	for _, part := range [][]byte{name, value} {
		digest := sha256.Sum256(part)
		h.Write(digest[:])
	}
	subtle.XORBytes(s[:], s[:], h.Sum(nil))
}

// openTable reads and checks everything: a transaction that changes a damaged
// file would vouch for the damage.
func openTable(tx *bbolt.Tx) (*table, error) {
	t := &table{meta: tx.Bucket(metaBucket), rows: tx.Bucket(answersBucket), answers: answers{}}
	if t.meta == nil {
		return nil, fmt.Errorf("%w: it is not a store of answers", ErrCorrupt)
	}
	if v := t.meta.Get(schemaKey); string(v) != schema {
		return nil, fmt.Errorf("%w: schema %q, this one knows %q", errNewer, v, schema)
	}
	if t.rows == nil {
		return nil, fmt.Errorf("%w: the answers are missing", ErrCorrupt)
	}
	err := t.rows.ForEach(func(name, value []byte) error {
		if len(name) > bbolt.MaxKeySize || len(value) > maxRow { // a length that was damaged: do not even look
			return fmt.Errorf("%w: a row of %d and %d bytes", ErrCorrupt, len(name), len(value))
		}
		m, err := parseRow(name, value)
		t.answers[m.Key] = m
		t.sum.toggle(name, value)
		return err
	})
	if err == nil && !bytes.Equal(t.meta.Get(sumKey), t.sum[:]) {
		err = fmt.Errorf("%w: rows were changed or lost", ErrCorrupt)
	}
	return t, err
}

// makeTable lays out a new file.
func makeTable(tx *bbolt.Tx) error {
	meta, err := tx.CreateBucket(metaBucket)
	if err != nil {
		return err
	}
	if _, err := tx.CreateBucket(answersBucket); err != nil {
		return err
	}
	if err := meta.Put(schemaKey, []byte(schema)); err != nil {
		return err
	}
	return meta.Put(sumKey, make([]byte, sha256.Size))
}

func (t *table) put(m approval.Memory) error {
	value, err := rowValue(m)
	if err != nil {
		return err
	}
	if err := t.remove(m.Key); err != nil {
		return err
	}
	name := rowKey(m.Key)
	if len(value) > maxRow {
		return fmt.Errorf("the answer has %d bytes, at most %d are kept", len(value), maxRow)
	}
	t.sum.toggle(name, value)
	t.answers[m.Key] = m
	return t.rows.Put(name, value)
}

func (t *table) remove(k approval.Key) error {
	name := rowKey(k)
	if old := t.rows.Get(name); old != nil {
		t.sum.toggle(name, old)
	}
	delete(t.answers, k)
	return t.rows.Delete(name)
}

// count adds uses to the rows that are still there.
func (t *table) count(uses map[approval.Key]use) error {
	for k, u := range maps.All(uses) {
		m, ok := t.answers[k]
		if !ok {
			continue
		}
		if err := t.put(u.add(m)); err != nil {
			return err
		}
	}
	return nil
}

// seal writes the sum. It is the last thing a transaction does.
func (t *table) seal() error { return t.meta.Put(sumKey, t.sum[:]) }
