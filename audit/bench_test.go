package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// benchRecord is about what the decision on a shell command takes, with its plan.
func benchRecord() Record {
	rec := decision("call-1")
	rec.Data = json.RawMessage(fmt.Sprintf(`{"plan":{"argv":["bash","-c","go test ./..."],"profile":{"paths":{%s"/":""}}}}`,
		strings.Repeat(`"/usr/share/some/directory":"r",`, 40)))
	return rec
}

func BenchmarkAppend(b *testing.B) {
	for _, mode := range []SyncMode{SyncDecision, SyncNever} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("sync=%s/callers=%d", mode, callers), func(b *testing.B) {
				l := mustOpen(b, b.TempDir()+"/audit.jsonl", Options{Sync: mode})
				rec := benchRecord()
				b.SetParallelism(callers)
				b.ResetTimer()
				run := func() {
					if _, err := l.Append(context.Background(), rec); err != nil {
						b.Error(err)
					}
				}
				if callers == 1 {
					for b.Loop() {
						run()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						run()
					}
				})
			})
		}
	}
}

// BenchmarkSyncedWrite is what the disk takes for one write of the same size.
func BenchmarkSyncedWrite(b *testing.B) {
	f, err := openFile(b.TempDir() + "/raw")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := make([]byte, 2000)
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := syncData(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	r := newRedactor(b)
	for name, data := range map[string]any{
		"clean":  benchRecord().Data,
		"secret": map[string]any{"a": benchRecord().Data, "password": "x"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.JSON(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	es := someEntries(1000)
	for i := range es {
		es[i].Data = benchRecord().Data.(json.RawMessage)
	}
	log, _ := makeLog(b, es...)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := Verify(bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a log of 10,000 entries that was closed in order.
func BenchmarkOpen(b *testing.B) {
	path := b.TempDir() + "/audit.jsonl"
	l := mustOpen(b, path, Options{Sync: SyncNever})
	for i := range 5000 {
		mustAppend(b, l, decision(fmt.Sprint(i)))
		mustAppend(b, l, end(fmt.Sprint(i)))
	}
	mustClose(b, l)
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(st.Size()), "log-bytes")
	for b.Loop() {
		mustClose(b, mustOpen(b, path, Options{Sync: SyncNever}))
	}
}
