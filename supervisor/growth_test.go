package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// BenchmarkGrowthCall is a read_file by the number of paths in its profile, each a file
// or a directory. What the supervisor's own processor time is does not depend on what
// else the machine does.
func BenchmarkGrowthCall(b *testing.B) {
	for _, kind := range []string{"files", "directories"} {
		for _, n := range []int{5, 50, 500} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) { growthCall(b, kind == "directories", n) })
		}
	}
}

func growthCall(b *testing.B, directories bool, n int) {
	granted := b.TempDir()
	f := newFixture(b, setup{mode: approval.ApproveAll, confiner: standing, profile: func(p *sandboxprofile.Profile) {
		for i := range n {
			path := filepath.Join(granted, fmt.Sprint(i%10), fmt.Sprint(i))
			err := os.MkdirAll(filepath.Dir(path), 0o700)
			if err == nil && directories {
				err = os.Mkdir(path, 0o700)
			} else if err == nil {
				err = os.WriteFile(path, nil, 0o600)
			}
			if err != nil {
				b.Fatal(err)
			}
			p.Paths[path] = sandboxprofile.Read
		}
	}})
	if err := os.WriteFile(f.ws+"/a", make([]byte, 4<<10), 0o600); err != nil {
		b.Fatal(err)
	}
	read := func() {
		if _, err := f.call(b.Context(), "read_file", `{"path":"a"}`); err != nil {
			b.Fatal(err)
		}
	}
	read()
	time.Sleep(200 * time.Millisecond) // directories that have just changed are looked at more closely
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	calls := 0
	for b.Loop() {
		read()
		calls++
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/float64(calls)/1e3, "cpu-µs/op")
}

// standing keeps the sandboxes of calls, as the program does.
func standing(c confine.Confiner) confine.Confiner { return linux.NewWarmPool(c.(*linux.Bwrap)) }
