package linux_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestTheLargestEndsBeforeMemoryDoes: when the host has less memory left than what is kept
// for the supervisor, the call that holds the most ends for it, and says why. None ends that
// holds less than what is kept.
func TestTheLargestEndsBeforeMemoryDoes(t *testing.T) {
	for _, c := range []confine.Confiner{newBwrap(t), newLandlock(t, linux.LandlockOptions{})} {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			meminfo := filepath.Join(ws, "meminfo")
			left := func(figure string) {
				t.Helper()
				if err := os.WriteFile(meminfo+".new", []byte("MemAvailable: "+figure+" kB\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(meminfo+".new", meminfo); err != nil {
					t.Fatal(err)
				}
			}
			left("1048576")
			linux.LeaveMemory(c, meminfo, 64<<20)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			const hold = "import sys, time; x = b'x' * (int(sys.argv[1]) << 20); open(sys.argv[1], 'w'); time.sleep(600)"
			got := map[string]confinetest.Outcome{}
			var mu sync.Mutex
			var all sync.WaitGroup
			for _, size := range []string{"2", "40", "120"} {
				ended := func(o confinetest.Outcome) {
					mu.Lock()
					defer mu.Unlock()
					got[size] = o
				}
				all.Go(func() {
					ended(confinetest.Exec(t, ctx, c, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", hold, size))
				})
				for {
					if _, err := os.Stat(filepath.Join(ws, size)); err == nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			left("16384")
			for ended := 0; ended == 0; time.Sleep(10 * time.Millisecond) {
				mu.Lock()
				ended = len(got)
				mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond) // some looks more
			stop()
			all.Wait()
			for size, want := range map[string]confine.Cause{"120": confine.HostMemory, "40": confine.Cancelled, "2": confine.Cancelled} {
				if got[size].Cause != want || got[size].Signal != "SIGKILL" {
					t.Errorf("%s MiB: %+v, want %s", size, got[size].Result, want)
				}
			}
		})
	}
}
