package linux

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func testRoom(most int, host hostRoom) *room {
	return &room{most: most, host: host, of: map[any]int{}, resting: list.New()}
}

// TestRoomIsFair: when there is no more room, the next place is for whoever has the
// fewest, whoever asked first.
func TestRoomIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testRoom(3, hostRoom{})
		enter := func(owner string) chan func() {
			in := make(chan func(), 1)
			go func() {
				leave, err := r.enter(context.Background(), owner)
				if err != nil {
					t.Error(err)
				}
				in <- leave
			}()
			synctest.Wait()
			return in
		}
		var greedy []chan func()
		for range 5 {
			greedy = append(greedy, enter("greedy"))
		}
		modest := enter("modest")
		for _, first := range greedy[:3] {
			(<-first)()
			synctest.Wait()
			select {
			case leave := <-modest: // nobody else has a place while it waits
				leave()
				synctest.Wait()
				(<-greedy[3])()
				(<-greedy[4])()
				return
			default:
				t.Fatal("a place was given to the one that has most")
			}
		}
	})
}

// TestRoomEndsWaits: a call that finds no place in time, and one that nobody could make
// room for, is told so; what it waited for can be had later.
func TestRoomEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testRoom(1, hostRoom{})
		leave, err := r.enter(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var short *confine.Shortage
		if _, err := r.enter(context.Background(), 2); !errors.As(err, &short) || time.Since(start) != roomPatience {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("gone"))
		if _, err := r.enter(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if _, ok := r.tryEnter(2); ok {
			t.Error("there is no place")
		}
		leave()
		leave() // twice is once
		if leave, err = r.enter(context.Background(), 2); err != nil {
			t.Error(err)
		}
		leave()
		if r.standing != 0 || len(r.of) != 0 || len(r.waiting) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestRoomLooksAtTheHost: processes and memory that others use up are reasons to wait
// and to say so, and what a program may start leaves enough for the supervisor.
func TestRoomLooksAtTheHost(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		lacks string
		pids  int64 // of a limit of 500
	}{
		"no bounds":          {nil, "", 500},
		"unbounded":          {map[string]string{"a/pids.max": "max", "a/pids.current": "7"}, "", 500},
		"enough":             {map[string]string{"a/pids.max": "1000", "a/pids.current": "100"}, "", 500},
		"fewer than a limit": {map[string]string{"a/pids.max": "300", "a/pids.current": "60"}, "", 300 - 60 - 32},
		"none":               {map[string]string{"a/pids.max": "300", "a/pids.current": "290"}, "10 processes are left", 1},
		"a small container":  {map[string]string{"a/pids.max": "60", "a/pids.current": "20"}, "", 60 - 20 - 15},
		"the one above":      {map[string]string{"a/pids.max": "max", "pids.max": "100", "pids.current": "90"}, "10 processes are left", 1},
		"memory":             {map[string]string{"a/memory.max": "104857600", "a/memory.current": "94371840"}, "10 MiB of memory", 500},
		"pages of files":     {map[string]string{"a/memory.max": "104857600", "a/memory.current": "94371840", "a/memory.stat": "anon 1\ninactive_file 52428800\n"}, "", 500},
		"pages in use":       {map[string]string{"a/memory.max": "104857600", "a/memory.current": "94371840", "a/memory.stat": "anon 1\nactive_file 31457280\n"}, "25 MiB of memory", 500},
		"memory, version 1":  {map[string]string{"a/memory.limit_in_bytes": "104857600", "a/memory.usage_in_bytes": "94371840"}, "10 MiB of memory", 500},
		"memory of the host": {map[string]string{"meminfo": "MemTotal: 100 kB\nMemAvailable:    5120 kB\n"}, "5 MiB of memory", 500},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			root := fakeTree(t, x.files)
			r := testRoom(10, hostRoom{cgroups: []string{root + "/a", root}, meminfo: root + "/meminfo"})
			leave, err := r.enter(context.Background(), 1)
			if (err == nil) != (x.lacks == "") || err != nil && (!confine.IsShortage(err) || !strings.Contains(err.Error(), x.lacks)) {
				t.Errorf("%v, want %q", err, x.lacks)
			}
			if err == nil {
				leave()
			}
			l := sandboxprofile.Limits{Pids: 500}
			if r.within(l).Pids != x.pids {
				t.Errorf("%d processes, want %d", r.within(l).Pids, x.pids)
			}
		})
	}
	if h := findHostRoom(); h.meminfo == "" || h.lacks() != nil {
		t.Errorf("this host: %+v: %v", h, h.lacks())
	}
}

// TestLandlockEntersTheRoom: the sandboxes of that backend count like all others, those
// that could not be built too.
func TestLandlockEntersTheRoom(t *testing.T) {
	l, err := NewLandlock(LandlockOptions{})
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	l.room.most = 1
	p := sandboxprofile.Profile{
		Paths:  map[string]sandboxprofile.Rights{"/usr": sandboxprofile.Read | sandboxprofile.Execute, t.TempDir(): sandboxprofile.Read | sandboxprofile.Write},
		Limits: sandboxprofile.NoLimits(),
	}
	for range 3 {
		first, err := l.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		second := make(chan error, 1)
		go func() {
			box, err := l.Prepare(ctx, p)
			if err == nil {
				box.Close()
			}
			second <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) { // the test's own limit of time ends this
			l.room.mu.Lock()
			waits = len(l.room.waiting) == 1
			l.room.mu.Unlock()
		}
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("a second one, where there is room for one: %v", err)
		}
		first.Close()
		if _, err := l.Prepare(context.Background(), sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{"no path": sandboxprofile.Read}}); err == nil {
			t.Error("a sandbox without a proper profile was built")
		}
	}
	if l.room.standing != 0 {
		t.Errorf("%d stand that are gone", l.room.standing)
	}
}

// TestWhatIsBuiltAheadMakesRoom: a sandbox that waits for a call of one session goes for a
// call of another.
func TestWhatIsBuiltAheadMakesRoom(t *testing.T) {
	l, err := NewLandlock(LandlockOptions{})
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	l.room.most = 1
	p := sandboxprofile.Profile{
		Paths:  map[string]sandboxprofile.Rights{"/usr": sandboxprofile.Read | sandboxprofile.Execute, t.TempDir(): sandboxprofile.Read | sandboxprofile.Write},
		Limits: sandboxprofile.NoLimits(),
	}
	call := func(h *hostAhead) {
		t.Helper()
		box, err := h.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		box.Close()
		h.tasks.Wait()
	}
	one, other := newHostAhead(l), newHostAhead(l)
	for range 3 {
		call(one)
		if len(one.waits) != 1 || l.room.standing != 1 {
			t.Fatalf("%d wait, %d stand", len(one.waits), l.room.standing)
		}
		call(other)
		if len(one.waits) != 0 || len(other.waits) != 1 {
			t.Fatalf("%d and %d wait", len(one.waits), len(other.waits))
		}
	}
	one.Close()
	other.Close()
	if l.room.standing != 0 || l.room.resting.Len() != 0 {
		t.Errorf("%d stand, %d rest", l.room.standing, l.room.resting.Len())
	}
}

// TestReserveIsSaid: a host on which the reserve cannot be kept is said to be one, and no
// other.
func TestReserveIsSaid(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		open  uint64
		says  string // "" is nothing
	}{
		"no bounds":         {nil, 1024, ""},
		"enough":            {map[string]string{"a/pids.max": "300", "a/pids.current": "60"}, 1024, ""},
		"a small container": {map[string]string{"a/pids.max": "100", "a/pids.current": "10"}, 1024, "90 processes are left of what this container or unit may have, and 25"},
		"used up":           {map[string]string{"a/pids.max": "300", "a/pids.current": "260"}, 1024, "40 processes are left"},
		"the one above":     {map[string]string{"a/pids.max": "max", "pids.max": "100", "pids.current": "90"}, 1024, "10 processes are left"},
		"few descriptors":   {nil, 160, "160 descriptors"},
		"little memory":     {map[string]string{"a/memory.max": "104857600", "a/memory.current": "94371840"}, 1024, "10 MiB of memory"},
	} {
		root := fakeTree(t, x.files)
		h := hostRoom{cgroups: []string{root + "/a", root}, meminfo: root + "/meminfo"}
		says := strings.Join(h.withoutReserve(x.open), "; ")
		if !strings.Contains(says, x.says) || (says == "") != (x.says == "") {
			t.Errorf("%s: %q, want %q", name, says, x.says)
		}
	}
}

// TestStandingFor: descriptors bound sandboxes, and leave some for everything else.
func TestStandingFor(t *testing.T) {
	for files, want := range map[uint64]int{0: 1, 64: 1, 256: 8, 1024: 44, 20_000: 933, 1 << 20: maxStanding, ^uint64(0): maxStanding} {
		if got := standingFor(files); got != want {
			t.Errorf("%d descriptors: %d sandboxes, want %d", files, got, want)
		}
	}
}

// TestWarmSandboxesMakeRoom: warm sandboxes of other sessions go, the one that has waited longest
// first, when a call needs their place.
func TestWarmSandboxesMakeRoom(t *testing.T) {
	b, err := NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.room = testRoom(3, hostRoom{})
	p := probeProfile()
	call := func(c *WarmPool) {
		t.Helper()
		box, err := c.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var sessions []*WarmPool
	for range 6 {
		c := NewWarmPool(b)
		defer c.Close()
		sessions = append(sessions, c)
	}
	call(sessions[0])
	for _, c := range sessions[1:] {
		call(c)
	}
	var waiting []int
	for _, c := range sessions {
		c.mu.Lock()
		waiting = append(waiting, c.waiting())
		c.mu.Unlock()
	}
	if want := []int{0, 0, 0, 1, 1, 1}; !slices.Equal(waiting, want) {
		t.Errorf("warm sandboxes wait in %v, want %v", waiting, want)
	}
	call(sessions[3]) // used again: it is the last to go
	call(sessions[0])
	if sessions[3].waiting() != 1 || sessions[4].waiting() != 0 {
		t.Error("not the one went that had waited longest")
	}
	for _, c := range sessions {
		c.Close()
	}
	if b.room.standing != 0 || b.room.resting.Len() != 0 {
		t.Errorf("%d stand, %d rest", b.room.standing, b.room.resting.Len())
	}
}

// TestSandboxesShareOneKeyring: how many keys a user may have is bounded for all of the
// user's programs, so a sandbox takes none.
func TestSandboxesShareOneKeyring(t *testing.T) {
	b, err := NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const boxes = 24
	before := userKeys(t)
	for range boxes {
		box, err := b.Prepare(context.Background(), probeProfile())
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
	}
	if now := userKeys(t); now > before+boxes/2 { // others of this user have keys too
		t.Errorf("%d keys of this user, %d before %d sandboxes", now, before, boxes)
	}
}

// userKeys is how many keys count against this user's quota (keyrings(7)).
func userKeys(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/key-users")
	if errors.Is(err, unix.ENOENT) {
		return 0 // a kernel without keyrings
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var uid, usage, keys, instantiated, count, most int
		if n, _ := fmt.Sscanf(strings.TrimSpace(line), "%d: %d %d/%d %d/%d", &uid, &usage, &keys, &instantiated, &count, &most); n == 6 && uid == os.Getuid() {
			return count
		}
	}
	return 0
}
