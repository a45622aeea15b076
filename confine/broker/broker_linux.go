package broker

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// maxRefusals bounds what is kept of what was refused.
const maxRefusals = 64

// A Refusal is one change that a program asked for and did not get.
type Refusal struct {
	Call     string // the system call
	Path     string
	Standing Standing
}

// A FileID names a file whatever its path, until it is removed.
type FileID struct{ Dev, Ino uint64 }

func idOf(st *unix.Stat_t) FileID { return FileID{st.Dev, st.Ino} }

// births are files that programs were let make, with when that was: when one is removed,
// by whomever, its number becomes another's.
type births map[FileID]unix.StatxTimestamp

// A birth is one of them.
type birth struct {
	file FileID
	when unix.StatxTimestamp
}

// A config is a git configuration that was installed.
type config struct {
	text string
	was  string // what a person had there before programs changed it, "" for a program's own
}

// maxConfigBytes bounds what is remembered of them. In other directories, what is there
// belongs to a person.
const maxConfigBytes = 4 << 20

// installed notes what lies at name now.
func (b *Broker) installed(st *unix.Stat_t, dir int, name string, c config) {
	at := birth{idOf(st), born(dir, name)}
	b.forgetConfig(at)
	if n := len(c.text) + len(c.was); b.configBytes+n <= maxConfigBytes {
		b.configs[at] = c
		b.configBytes += n
	}
}

func (b *Broker) forgetConfig(at birth) {
	c := b.configs[at]
	b.configBytes -= len(c.text) + len(c.was)
	delete(b.configs, at)
}

// wasOf is the part of a configuration with text that a person relies on: all of it,
// unless a program installed exactly this text. A person may have edited it since.
func (b *Broker) wasOf(at birth, text string) string {
	if c, ok := b.configs[at]; ok && c.text == text {
		return c.was
	}
	return text
}

// born is when the file at name was made, or the one that dir is of with "". On a file
// system that does not know, all were made at once.
func born(dir int, name string) unix.StatxTimestamp {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st); err != nil {
		return unix.StatxTimestamp{Sec: -1} // no file's
	}
	return st.Btime
}

func (l births) add(st *unix.Stat_t, dir int, name string) { remember(l, idOf(st), born(dir, name)) }

func (l births) has(st *unix.Stat_t, dir int, name string) bool {
	when, ok := l[idOf(st)]
	return ok && when == born(dir, name)
}

// maxRemembered bounds each list of what programs were given.
const maxRemembered = 4096

// remember adds to a list that programs make longer. A full one forgets something: then
// they have less.
func remember[K comparable, V any](m map[K]V, k K, v V) {
	if _, there := m[k]; !there && len(m) >= maxRemembered {
		for old := range m {
			delete(m, old)
			break
		}
	}
	m[k] = v
}

// A Queue is what the brokers of a user wait for: ranges of numbers in a file that all of
// them have, each with an open file description of its own. A range stands for a directory
// and all below it: for a directory in another, the range lies in the other's. So two
// brokers wait for each other if the tree of one is inside the tree of the other.
type Queue struct {
	File   int
	Ranges []Range // in ascending order, and apart: so no two brokers wait for each other in a circle
}

// A Range is that of a lock of fcntl(2).
type Range struct{ Start, Length int64 }

// take takes all ranges, for this broker alone.
func (q *Queue) take() error {
	for _, r := range q.Ranges {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: r.Start, Len: r.Length}
		for {
			err := unix.FcntlFlock(uintptr(q.File), unix.F_OFD_SETLKW, &lock)
			if err == nil {
				break
			}
			if err != unix.EINTR {
				return err
			}
		}
	}
	return nil
}

// release gives all of them back at once.
func (q *Queue) release() {
	_ = unix.FcntlFlock(uintptr(q.File), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}) // to the end, of what we have
}

// Options are the options of a broker.
type Options struct {
	// Rules judge names. None are those that grant nothing.
	Rules *Rules
	// Kept are the protected and hidden files that were there at the start, whatever
	// other names they have.
	Kept []FileID
	// Redirected are the directories below which programs cannot read by themselves all
	// that the profile shows: something hidden lies there. They are read through the
	// broker.
	Redirected []string
	// Queue is held from looking at a name to acting on it. With nil there is none.
	Queue *Queue
	// Network describes the network that there is.
	Network Network
	// Diag tells of TCP sockets.
	Diag Diag
	// Processes lists the programs that live.
	Processes func() []int
	// Pools are where private places get their entries from.
	Pools []Pool
	// WritesMemory says that files of /proc may be written to, which are programs' memory.
	WritesMemory bool
	// Ask passes a question to a subscriber outside, who answers with Hear.
	Ask func(Question) error
}

// A Broker makes the changes that one sandbox's programs ask for.
type Broker struct {
	Options
	profile *Rules // Rules, whatever the ceiling of the action
	kept    map[FileID]bool
	frozen  []FileID // of kept: those of Keep
	pools   []*pool

	rootFD, procFD, selfFD int // O_PATH: "/", /proc and /proc/self/fd
	umask                  int // that programs start with
	masked                 atomic.Bool
	slowMemory             bool            // process_vm_readv(2) or process_vm_writev(2) is barred here
	mute                   bool            // no program's memory can be written
	mounts                 bool            // they say what may be changed: see Modes
	scratch                map[uint64]bool // devices of the private directories, with mounts
	maxWatched             int             // see mayWatch

	// abstractID is of this sandbox alone, and abstractFD where its abstract names are.
	abstractID string
	abstractFD int

	waiting  atomic.Int32 // opens that wait for another process
	listener *listener
	calls    sync.Pool

	sockets   map[uint64]socket // by inode: what is neither connected nor listens yet
	swept     time.Time         // when sockets may be swept again
	count     uint64            // of sockets that were ever made
	listened  map[uint64]bool   // inodes of those that listen
	terminals map[terminal]bool // that programs have made
	watchers  []watcher         // what programs watch with
	watched   int               // watches that these have, at most
	recounted time.Time         // when they may be counted again
	bound     births            // Unix sockets that programs have made
	gate      []byte            // options of IP by which programs' sockets know what the broker sends
	carries   bool              // it arrives
	askers    askers

	attachments []attachment // under names
	dangling    []dangling   // under names

	// names is held from looking at a name to acting on it.
	names sync.Mutex
	made  births // protected files that were made here, of checked content
	// configs are the git configurations that were installed, by the file that is there now.
	configs     map[birth]config
	configBytes int           // that they hold
	late        []late        // files that get their names when they are written
	until       time.Duration // see mayLook

	questions questions

	mu          sync.Mutex
	refused     []Refusal
	more        int             // refusals beyond those
	told        map[uint64]name // of sockets that are bound, by inode
	connections []*connection   // the newest last

	fault atomic.Pointer[string] // see guard
}

// New makes a broker that does not serve anything yet.
func New(o Options) (*Broker, error) {
	if o.Rules == nil {
		o.Rules = NewRules(sandboxprofile.Profile{}, nil)
	}
	b := &Broker{
		Options: o, profile: o.Rules, kept: map[FileID]bool{}, made: births{}, configs: map[birth]config{},
		sockets: map[uint64]socket{}, listened: map[uint64]bool{}, bound: births{}, terminals: map[terminal]bool{}, told: map[uint64]name{},
	}
	b.abstractID = randomName()
	for _, id := range o.Kept {
		b.kept[id] = true
	}
	for _, o := range o.Pools {
		p, err := openPool(o)
		if err != nil {
			return nil, err
		}
		b.pools = append(b.pools, p)
	}
	b.calls.New = func() any { return &call{b: b} }
	for _, x := range []struct {
		fd   *int
		path string
	}{{&b.rootFD, "/"}, {&b.procFD, "/proc"}, {&b.selfFD, "/proc/self/fd"}} {
		fd, err := unix.Open(x.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", x.path, err)
		}
		*x.fd = fd
	}
	if dir := o.Network.Sockets; dir != "" {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", dir, err)
		}
		b.abstractFD = fd
	}
	b.maxWatched = watchesOfUser() / 4
	b.umask = unix.Umask(0o777)
	unix.Umask(b.umask)
	b.slowMemory = !ReachesMemory()
	b.mute = b.slowMemory && !o.WritesMemory
	return b, nil
}

// ReachesMemory reports whether process_vm_readv(2) and process_vm_writev(2) are let through here. Older container
// runtimes bar them, and let /proc/PID/mem through.
func ReachesMemory() bool {
	var probe [1]byte
	own := []unix.RemoteIovec{{Base: addressOf(&probe[0]), Len: 1}}
	var got [1]byte
	_, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &got[0], Len: 1}}, own, 0)
	if err == nil {
		_, err = unix.ProcessVMWritev(os.Getpid(), []unix.Iovec{{Base: &got[0], Len: 1}}, own, 0)
	}
	return err == nil
}

// Keep replaces what names are judged by, and the files that are protected for a while,
// whatever their names. A change under way is judged by the one or the other.
func (b *Broker) Keep(rules *Rules, files []FileID) {
	b.names.Lock()
	defer b.names.Unlock()
	for _, id := range b.frozen {
		delete(b.kept, id)
	}
	b.frozen = nil
	for _, id := range files {
		if !b.kept[id] {
			b.kept[id], b.frozen = true, append(b.frozen, id)
		}
	}
	b.profile, b.Rules = rules, rules.Under(b.Rules.still, b.Rules.fixed)
}

// Refused gives what was refused since it was asked last, and how often more of what is protected
// or hidden was refused.
func (b *Broker) Refused() ([]Refusal, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, more := b.refused, b.more
	b.refused, b.more = nil, 0
	return list, more
}

func (b *Broker) refuse(r Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case slices.Contains(b.refused, r):
	case len(b.refused) < maxRefusals:
		b.refused = append(b.refused, r)
	case r.Standing == Outside: // programs try it by habit, and do without
	default:
		// Nor does it fill the list, which is for what is protected or hidden.
		if i := slices.IndexFunc(b.refused, func(o Refusal) bool { return o.Standing == Outside }); i >= 0 {
			b.refused = append(slices.Delete(b.refused, i, i+1), r)
			return
		}
		b.more++
	}
}

// A reply is the answer to a call. The zero value is a success with the result 0.
type reply struct {
	value  int64
	errno  unix.Errno
	fd     int // if hands is set: the thread gets it
	hands  bool
	beside int // if it is not 0: another descriptor of ours that goes with fd
	number int // if it is not 0: what the thread's is to be called, which is free
	cloex  bool
	undo   func()        // if the descriptor cannot be handed over
	known  func(n int32) // what number it has got
	after  func() unix.Errno
	native bool // the kernel goes on with the call
	later  bool // another goroutine answers
}

func fails(errno unix.Errno) reply { return reply{errno: errno} }

// gives hands over fd as the thread has asked for it.
func (c *call) gives(fd int) reply {
	return reply{hands: true, fd: fd, cloex: c.flags&unix.O_CLOEXEC != 0}
}

// take answers one notification.
func (b *Broker) take(n *notification) {
	b.Tend()
	c := b.calls.Get().(*call)
	*c = call{b: b, from: b.listener, id: n.id, tid: int(n.pid), nr: int(n.nr), args: n.args, proc: -1, opened: c.opened[:0]}
	handler := handlers[int(n.nr)]
	r := fails(unix.ENOSYS)
	if handler != nil && n.arch == nativeArch && (!b.mounts || modeCalls(int(n.nr))) {
		r = fails(unix.EIO)
		b.guard(func() { r = handler(c) })
	}
	switch {
	case r.later:
		return
	case r.errno == asked:
		c.close()
		b.guard(func() { b.park(*n, c) })
	default:
		c.finish(r)
	}
	b.calls.Put(c)
}

// finish sends the answer and lets go of what the call has opened.
func (c *call) finish(r reply) {
	l := c.from
	defer c.close()
	switch {
	case r.native:
		l.proceed(c.id)
	case r.hands:
		// Our copy is closed before the thread goes on: a program that it then writes and
		// executes must not be open for writing here (ETXTBSY).
		n, errno := l.hand(c.id, r.fd, r.cloex, r.number)
		c.b.guard(func() {
			if errno == 0 && r.after != nil {
				errno = r.after()
			} else if errno != 0 && r.undo != nil {
				r.undo()
			}
			if errno == 0 && r.known != nil {
				r.known(int32(n))
			}
		})
		r.drop(0)
		l.answer(c.id, n, errno)
	default:
		l.answer(c.id, r.value, r.errno)
	}
}

// locked calls act with the queue for names.
func (b *Broker) locked(act func() reply) reply {
	b.names.Lock()
	defer b.names.Unlock()
	if b.Queue != nil {
		defer b.Queue.release()
		if b.Queue.take() != nil {
			return fails(unix.EIO)
		}
	}
	b.until = 0
	return act()
}

// creating calls act, which makes name, with the thread's umask. The queue for names is held: no
// other thread of the broker makes a name meanwhile.
func (c *call) creating(name string, act func() error) unix.Errno {
	mask, ok := c.umask()
	if !ok {
		return unix.ESRCH
	}
	if !c.b.private(name, 0) {
		mask |= othersWrite
	}
	if mask != c.b.umask {
		unix.Umask(mask)
		defer unix.Umask(c.b.umask)
	}
	return c.acting(act)
}

// acting is creating for what makes no file. Nothing is done for a thread that has died or
// was fatally interrupted.
func (c *call) acting(act func() error) unix.Errno {
	if !c.waits() {
		return unix.ESRCH
	}
	if err := act(); err != nil {
		return errnoOf(err)
	}
	return 0
}

// judge says whether name may be changed, and notes that it may not.
func (c *call) judge(name string) unix.Errno {
	return c.verdict(name, c.b.standing(name))
}

// judgeNew is judge for a name that is not there yet.
func (c *call) judgeNew(p location, full string) unix.Errno {
	if errno := c.judge(full); errno != 0 {
		return errno
	}
	return c.appear(p, full)
}

func (c *call) verdict(name string, s Standing) unix.Errno {
	if s == Writable {
		return c.about(name)
	}
	if c.mayAsk(name, s) {
		return asked
	}
	c.b.refuse(Refusal{Call: callName(c.nr), Path: name, Standing: s})
	if s == Protected {
		return unix.EROFS
	}
	return unix.EACCES
}

// kept reports whether a file is one that was protected or hidden at the start, under
// whatever name.
func (b *Broker) isKept(st *unix.Stat_t) bool { return len(b.kept) > 0 && b.kept[idOf(st)] }

func callName(nr int) string {
	if name, ok := callNames[nr]; ok {
		return name
	}
	return strconv.Itoa(nr)
}
