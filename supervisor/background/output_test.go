package background

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"pgregory.net/rapid"
)

// TestKeptOutput compares what is kept with all that was written.
func TestKeptOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.Int64Range(4*maxChunk, 16*maxChunk).Draw(t, "keep")
		k := newKeptOutput(keep)
		var all []byte
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			s := rapid.SampledFrom([]protocol.Stream{protocol.Stdout, protocol.Stderr}).Draw(t, "stream")
			p := bytes.Repeat([]byte{byte(len(all))}, rapid.IntRange(0, 3*maxChunk).Draw(t, "length"))
			for i := range p {
				p[i] += byte(i >> 8)
			}
			k.write(s, p)
			all = append(all, p...)
		}
		offset := rapid.Int64Range(0, int64(len(all))+10).Draw(t, "offset")
		limit := rapid.Int64Range(1, 3*maxChunk).Draw(t, "limit")
		var given, dropped int64
		at := min(offset, int64(len(all)))
		for {
			r, more := k.read(at, limit)
			for _, p := range r.pieces {
				n := int64(len(p.data))
				given += n
			}
			dropped += r.dropped
			if len(r.pieces) == 0 {
				if more == nil {
					t.Fatal("the end of output that is not closed")
				}
				break
			}
			if r.dropped == 0 && len(r.pieces) == 1 && !bytes.Equal(r.pieces[0].data, all[at:r.next]) {
				t.Fatalf("%d to %d differ", at, r.next)
			}
			at = r.next
		}
		if k.kept > keep+maxChunk {
			t.Fatalf("keeps %d of at most %d", k.kept, keep)
		}
		if at != int64(len(all)) || given+dropped != int64(len(all))-min(offset, int64(len(all))) {
			t.Fatalf("from %d: %d given, %d dropped, of %d", offset, given, dropped, len(all))
		}
		if int64(len(all)) <= keep/2 && dropped != 0 {
			t.Fatal("dropped without need")
		}
	})
}

func TestInputEnds(t *testing.T) {
	in := NewInput(maxInput)
	if err := in.Put("some", false); err != nil {
		t.Fatal(err)
	}
	if err := in.Put(" text", true); err != nil {
		t.Fatal(err)
	}
	if err := in.Put("more", false); err == nil {
		t.Error("input after its end")
	}
	b, err := io.ReadAll(in)
	if string(b) != "some text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	waiting := NewInput(maxInput)
	done := make(chan error)
	go func() { _, err := waiting.Read(make([]byte, 1)); done <- err }()
	waiting.End()
	select {
	case err := <-done:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a reader is left behind")
	}
}
