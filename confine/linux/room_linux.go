package linux

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// What one sandbox takes, and what is kept for the supervisor itself, for its operators
// and for the rest of the host. Descriptors are this process's; processes and memory are
// those of the container or the unit that it runs in.
const (
	sandboxDescriptors = 16
	ownDescriptors     = 64 // log, store, sockets, files that are looked at
	sandboxTasks       = 16 // bubblewrap, and the threads of init
	ownTasks           = 32
	ownMemory          = 32 << 20
)

// maxStanding bounds the sandboxes of one supervisor where nothing else does.
const maxStanding = 1024

// maxResting bounds the warm sandboxes of all sessions that wait for their next call. Which go
// first are those that have waited longest.
const maxResting = 64

// roomPatience is how long a call waits until there is room for its sandbox, and
// maxWaiting how many do.
const (
	roomPatience = 20 * time.Second
	roomLook     = 50 * time.Millisecond // how often a host without room is looked at
	maxWaiting   = 1024
)

// A room is the space that the host has for sandboxes. It lets in as many as fit, and
// then one for each that goes: first to whom the fewest stand, so that no session keeps
// others waiting. Warm sandboxes that rest make room for calls.
type room struct {
	most int
	host hostRoom

	mu       sync.Mutex
	standing int
	of       map[any]int // how many stand, by owner
	waiting  []*applicant
	resting  *list.List // of *resting, the one that has rested longest in front
	leaving  int        // warm sandboxes that are on their way out
	looking  bool       // the host is looked at again for who waits

	running  map[*performance]bool
	watching bool  // what memory is left
	spare    int64 // of that, for us
}

// A resting sandbox is warm, and waits for its next call.
type resting struct {
	end   func() // ends it, unless a call has taken it meanwhile
	place *list.Element
}

// A performance is of an action that holds memory.
type performance struct {
	pid     int           // of the process above all that it runs
	starved chan struct{} // closed when it is to end for that
	ends    bool
}

// An applicant waits for room.
type applicant struct {
	owner any
	in    chan error // one answer
}

func newRoom() *room {
	var files unix.Rlimit
	most := maxStanding
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		most = standingFor(files.Cur)
	}
	r := &room{most: most, host: findHostRoom(), of: map[any]int{}, resting: list.New(), running: map[*performance]bool{}}
	left, _ := r.host.memoryLeft()
	r.spare = min(left/8, ownMemory)
	return r
}

// standingFor is how many sandboxes there may be with so many descriptors, of which
// a quarter is for connections.
func standingFor(descriptors uint64) int {
	files := int64(min(descriptors, 1<<30))
	return int(min(max((files-files/4-ownDescriptors)/sandboxDescriptors, 1), maxStanding))
}

// enter waits for room for one more sandbox of owner's, and gives what leaves it. Its
// error is a *Shortage, or that of ctx.
func (r *room) enter(ctx context.Context, owner any) (leave func(), err error) {
	r.mu.Lock()
	if len(r.waiting) >= maxWaiting {
		r.mu.Unlock()
		return nil, &confine.Shortage{Op: "build a sandbox", Err: fmt.Errorf("%d calls wait for one already", maxWaiting)}
	}
	a := &applicant{owner, make(chan error, 1)}
	r.waiting = append(r.waiting, a)
	r.admit()
	r.mu.Unlock()
	patience := time.NewTimer(roomPatience)
	defer patience.Stop()
	select {
	case err = <-a.in:
	case <-ctx.Done():
		err = r.withdraw(a, ctx.Err())
	case <-patience.C:
		err = r.withdraw(a, r.full(roomPatience))
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { r.leave(owner) }), nil
}

// tryEnter is enter for a sandbox that no call waits for: it displaces no other.
func (r *room) tryEnter(owner any) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 || r.lacks() != nil {
		return nil, false
	}
	r.take(owner)
	return sync.OnceFunc(func() { r.leave(owner) }), true
}

// withdraw takes back an application, with why; nil if it was granted meanwhile.
func (r *room) withdraw(a *applicant, why error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, x := range r.waiting {
		if x == a {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			return why
		}
	}
	return <-a.in
}

func (r *room) take(owner any) {
	r.standing++
	r.of[owner]++
}

func (r *room) leave(owner any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing--
	if r.of[owner]--; r.of[owner] == 0 {
		delete(r.of, owner)
	}
	r.admit()
}

// admit lets in who waits while there is room, and has warm sandboxes go for the others.
func (r *room) admit() {
	for len(r.waiting) > 0 {
		lack := r.lacks()
		if lack == nil {
			next := r.next()
			r.take(next.owner)
			next.in <- nil
			continue
		}
		for r.leaving < len(r.waiting) && r.evict() {
		}
		switch {
		case r.standing == 0:
			r.next().in <- &confine.Shortage{Op: "build a sandbox", Err: lack} // nothing of ours would make room
		case !r.looking:
			r.looking = true
			time.AfterFunc(roomLook, r.look)
			return
		default:
			return
		}
	}
}

// look admits again: what tools use comes free without a sandbox that goes.
func (r *room) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
	r.admit()
}

// next takes the applicant out whose owner has the fewest sandboxes, of those the one
// that has waited longest.
func (r *room) next() *applicant {
	best := 0
	for i, a := range r.waiting {
		if r.of[a.owner] < r.of[r.waiting[best].owner] {
			best = i
		}
	}
	a := r.waiting[best]
	r.waiting = append(r.waiting[:best], r.waiting[best+1:]...)
	return a
}

// lacks is why no further sandbox fits, nil if one does.
func (r *room) lacks() error {
	if r.standing >= r.most {
		return fmt.Errorf("%d sandboxes stand, which is as many as its descriptors allow", r.standing)
	}
	return r.host.lacks()
}

func (r *room) full(waited time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason := r.lacks()
	if reason == nil {
		reason = errors.New("others came first")
	}
	return &confine.Shortage{Op: "build a sandbox", Err: fmt.Errorf("waited %v: %w", waited, reason)}
}

// rest notes that x waits for its next call.
func (r *room) rest(x *resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.place = r.resting.PushBack(x)
	if r.resting.Len() > maxResting || len(r.waiting) > 0 {
		r.evict()
	}
}

// wake notes that x does not wait any more.
func (r *room) wake(x *resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting.Remove(x.place)
}

// evict has the warm sandbox go that has rested longest, if there is one.
func (r *room) evict() bool {
	x := r.foremost()
	if x != nil {
		go r.dismiss(x)
	}
	return x != nil
}

// foremost takes the warm sandbox that has rested longest, which is on its way out from now on.
func (r *room) foremost() *resting {
	front := r.resting.Front()
	if front == nil {
		return nil
	}
	r.leaving++
	return r.resting.Remove(front).(*resting)
}

func (r *room) dismiss(x *resting) {
	x.end() // does nothing if a call has just taken it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving--
	r.admit()
}

// shed has the warm sandbox end that has rested longest, for what the kernel counts and we do not:
// namespaces, keys, and whatever else a sandbox could not be built for. It reports whether
// there was one.
func (r *room) shed() bool {
	r.mu.Lock()
	x := r.foremost()
	r.mu.Unlock()
	if x != nil {
		r.dismiss(x)
	}
	return x != nil
}

// within is l as far as the host has processes left. What the tools may start must
// leave some for the supervisor and for the next sandbox.
func (r *room) within(l sandboxprofile.Limits) sandboxprofile.Limits {
	if r == nil {
		return l
	}
	if left, reserve, bounded := r.host.tasksLeft(); bounded {
		l.Pids = min(l.Pids, max(left-reserve, 1))
	}
	return l
}

// A hostRoom has the limits that this process shares with others: its cgroups, from its
// own upwards.
type hostRoom struct {
	cgroups []string
	meminfo string
}

func findHostRoom() hostRoom {
	h := hostRoom{meminfo: "/proc/meminfo"}
	mount, self, err := hostCgroups()
	if err != nil {
		return h
	}
	for line := range strings.Lines(self) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		top := mount
		switch {
		case id == "0":
		case controllers == "pids", controllers == "memory":
			top = filepath.Join("/sys/fs/cgroup", controllers)
		default:
			continue
		}
		for dir := filepath.Join(top, path); len(dir) >= len(top) && strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
			h.cgroups = append(h.cgroups, dir)
		}
	}
	return h
}

// lacks is the resource of which the host has too little for one more sandbox, or nil.
func (h hostRoom) lacks() error {
	if left, reserve, bounded := h.tasksLeft(); bounded && left < reserve+sandboxTasks {
		return fmt.Errorf("%d processes are left of what this container or unit may have: raise its limit (pids.max, TasksMax=, --pids-limit)", left)
	}
	return h.memoryLacks()
}

// tasksLeft is how many more processes and threads there may be, if that is bounded, and
// how many of them are not for tools.
func (h hostRoom) tasksLeft() (left, reserve int64, bounded bool) {
	for _, dir := range h.cgroups {
		most, ok := readNumber(dir + "/pids.max")
		if !ok {
			continue
		}
		if now, ok := readNumber(dir + "/pids.current"); ok && (!bounded || most-now < left) {
			left, reserve, bounded = most-now, min(ownTasks, most/4), true
		}
	}
	return left, reserve, bounded
}

// WithoutReserve says in sentences for people which reserve of this host a supervisor
// cannot keep. Tools can then use up what it needs to answer and to start the next sandbox.
func WithoutReserve() []string {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		files.Cur = unix.RLIM_INFINITY
	}
	return findHostRoom().withoutReserve(files.Cur)
}

// fewStanding is how few sandboxes at once are worth a warning.
const fewStanding = 8

func (h hostRoom) withoutReserve(descriptors uint64) []string {
	var all []string
	if left, reserve, bounded := h.tasksLeft(); bounded && (reserve < ownTasks || left < ownTasks+sandboxTasks) {
		all = append(all, fmt.Sprintf("%d processes are left of what this container or unit may have, and %d of them are kept from tools: "+
			"%d and %d for a sandbox are needed, or a tool can keep others from starting; raise the limit (pids.max, TasksMax=, --pids-limit)",
			left, min(reserve, max(left, 0)), ownTasks, sandboxTasks))
	}
	if n := standingFor(descriptors); n < fewStanding {
		all = append(all, fmt.Sprintf("%d descriptors are enough for no more than %d sandboxes at once; raise the limit (ulimit -n, LimitNOFILE=)", descriptors, n))
	}
	if err := h.memoryLacks(); err != nil {
		all = append(all, err.Error()+": calls wait until there is more")
	}
	return all
}

// memoryLacks is nil if there is memory for one more sandbox.
func (h hostRoom) memoryLacks() error {
	if left, known := h.memoryLeft(); known && left < ownMemory {
		return fmt.Errorf("%d MiB of memory are left", left>>20)
	}
	return nil
}

// memoryLeft is how many bytes more can be had.
func (h hostRoom) memoryLeft() (left int64, known bool) {
	b, err := os.ReadFile(h.meminfo)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok && err == nil {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			left, known = kb<<10, err == nil
		}
	}
	for _, dir := range h.cgroups {
		for _, files := range [][2]string{{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}} {
			most, ok := readNumber(dir + "/" + files[0])
			now, ok2 := readNumber(dir + "/" + files[1])
			if !ok || !ok2 {
				continue
			}
			// Of what was used lately half counts, as in MemAvailable: programs that run have to read
			// their own text again when it is given up, and then everybody waits for the disk.
			idle, used := reclaimable(dir)
			if free := most - now + idle + used/2; !known || free < left {
				left, known = free, true
			}
		}
	}
	return left, known
}
