package linux

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/confine/proctree"
)

// While calls run, the memory that is left to all is looked at: before two processors can
// have used it up, but no more often than this.
const (
	fillRate      = 4 << 30 // bytes in a second
	mostOftenLook = 10 * time.Millisecond
	leastLook     = time.Second
)

// runs says that an action is about to run below the process pid, until done. starved is closed if that
// is to end, because it has taken of the host's or the container's memory what is kept for
// the supervisor. The kernel would end it later, one process after the other, and let
// the supervisor wait meanwhile for each message that it sends.
func (r *room) runs(pid int) (starved <-chan struct{}, done func()) {
	if r == nil {
		return nil, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &performance{pid: pid, starved: make(chan struct{})}
	r.running[p] = true
	if !r.watching {
		r.watching = true
		time.AfterFunc(0, r.watch)
	}
	return p.starved, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, p)
	}
}

// watch looks once, and again later while there is a call.
func (r *room) watch() {
	left, known := r.host.memoryLeft()
	r.mu.Lock()
	running := maps.Clone(r.running)
	if r.watching = known && len(running) > 0; !r.watching {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	if left < r.spare {
		endLargest(running, r.spare-left, r.spare)
	}
	pause := time.Duration(float64(left-r.spare) / fillRate * float64(time.Second))
	time.AfterFunc(min(max(pause, mostOftenLook), leastLook), r.watch)
}

// endLargest ends the one that holds the most, if that is at least least, and those that end
// already will not give back what is missing.
func endLargest(running map[*performance]bool, missing, least int64) {
	var largest *performance
	for p := range running {
		n := heldBelow(p.pid)
		if p.ends {
			missing -= n
		} else if n >= least {
			largest, least = p, n
		}
	}
	if largest != nil && missing > 0 {
		largest.ends = true
		close(largest.starved)
	}
}

// heldBelow is about how much memory the processes below pid show that they hold, by
// /proc/PID/status (proc_pid_status(5)). Pages of files do not count, those of memory and page tables do.
func heldBelow(pid int) (held int64) {
	for _, child := range proctree.Descendants(pid) {
		b, _ := os.ReadFile(proctree.Shown(strconv.Itoa(child)) + "/status") // what has ended holds nothing
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 1 && slices.Contains([]string{"RssAnon:", "RssShmem:", "VmPTE:"}, f[0]) {
				kb, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes a number
				held += kb << 10
			}
		}
	}
	return held
}
