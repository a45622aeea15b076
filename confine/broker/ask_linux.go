package broker

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A subscriber outside can hear of a change before it is made, and of a refusal before it
// is given. Meanwhile the call waits in the kernel, with nothing done for it. When the
// answer has come it is made again from the beginning: read, resolved and judged. So an
// answer is about a name and a file, and holds whatever a program has done to its memory
// and its directories since.

// Asks says what a subscriber wants to hear of during an action.
type Asks struct {
	Changes  bool // what is about to be changed, once for each name and file
	Refusals bool // names that are about to be refused, each once: protected ones, and opens outside
}

// A Question is about one name.
type Question struct {
	ID         uint64
	Call, Path string
	Standing   Standing // Writable: it is made unless somebody minds
	Before     int      // the regular file that is there, open for reading; -1 for none
	// Flags and Mode are of an open of what is Outside. The broker itself may not open it:
	// the answer brings a descriptor.
	Flags int
	Mode  uint32
}

const (
	// maxParked bounds the calls that wait for an answer. More are left in the kernel.
	maxParked = 64
	// maxAsked bounds the refusals of one action that are asked about.
	maxAsked = 16
	// maxAnswers and maxAnswerBytes bound what is remembered of the answers, and of the paths
	// that they are about. Beyond, all are forgotten.
	maxAnswers     = 1 << 16
	maxAnswerBytes = 16 << 20
	// asked is the errno of a call that waits for an answer. No program sees it.
	asked = unix.Errno(1 << 12)
)

// A subject is what an answer is about.
type subject struct {
	path    string
	file    FileID // zero for a free name
	refusal bool
	call    uint64 // of an open outside: each has a descriptor of its own
}

type parked struct {
	n     notification
	about subject
	cloex bool
}

// questions are those of one action.
type questions struct {
	Asks
	last     uint64
	open     map[uint64]subject
	answers  map[subject]bool
	bytes    int             // of the paths in answers, and of some that were in them
	refusals map[string]bool // names that somebody was asked about
	parked   []parked
	tended   time.Time
}

func (q *questions) full() bool { return max(len(q.parked), len(q.open)) >= maxParked }

// Want begins an action that has a subscriber.
func (b *Broker) Want(a Asks) {
	if b != nil {
		b.questions = questions{Asks: a, open: map[uint64]subject{}, answers: map[subject]bool{}, refusals: map[string]bool{}}
	}
}

// about tells the subscriber that the call is about to change name.
func (c *call) about(name string) unix.Errno {
	q := &c.b.questions
	if !q.Changes || c.from == nil || c.b.Rules.own(name) {
		return 0
	}
	if p, _ := c.b.poolOf(name); p != nil {
		return 0
	}
	s := subject{path: name}
	var st unix.Stat_t
	if unix.Lstat(name, &st) == nil {
		s.file = idOf(&st)
	}
	switch yes, known := q.answers[s]; {
	case yes:
		return 0
	case known:
		c.b.refuse(Refusal{callName(c.nr), name, Protected})
		return unix.EROFS
	}
	c.asks = &s
	return asked
}

// knows notes that a program has made name: the subscriber need not hear of it twice.
func (q *questions) knows(name string) {
	var st unix.Stat_t
	if q.Changes && unix.Lstat(name, &st) == nil {
		q.answer(subject{path: name, file: idOf(&st)}, true)
	}
}

func (q *questions) answer(s subject, yes bool) {
	if q.bytes += len(s.path); len(q.answers) >= maxAnswers || q.bytes > maxAnswerBytes {
		clear(q.answers)
		q.bytes = len(s.path)
	}
	q.answers[s] = yes
}

// mayAsk reports whether a subscriber wants to hear that name is about to be refused.
func (c *call) mayAsk(name string, s Standing) bool {
	q := &c.b.questions
	if !q.Refusals || c.from == nil || c.b.standing(name) != s {
		return false
	}
	about := subject{path: name, refusal: true}
	if _, known := q.answers[about]; known || len(q.refusals) >= maxAsked && !q.refusals[name] {
		return false
	}
	switch s {
	case Protected:
	case Outside:
		// Not under a ceiling, which no answer lifts.
		if p, _ := c.b.poolOf(name); p != nil || !c.opens || c.b.Rules.still || below(c.b.Rules.fixed, name) || c.flags&unix.O_TMPFILE == unix.O_TMPFILE {
			return false
		}
		about.call = c.id
	default:
		return false
	}
	var st unix.Stat_t
	if unix.Lstat(name, &st) == nil && slices.Contains(c.b.frozen, idOf(&st)) {
		return false // it is what was approved
	}
	c.asks = &about
	return true
}

// allowed reports whether a person has allowed a protected name.
func (b *Broker) allowed(name string) bool {
	return b.questions.Refusals && b.questions.answers[subject{path: name, refusal: true}]
}

// park keeps a call until its question is answered.
func (b *Broker) park(n notification, c *call) {
	q := &b.questions
	q.parked = append(q.parked, parked{n, *c.asks, c.flags&unix.O_CLOEXEC != 0})
	for _, s := range q.open {
		if s == *c.asks {
			return
		}
	}
	q.last++
	q.open[q.last] = *c.asks
	ask := Question{ID: q.last, Call: callName(c.nr), Path: c.asks.path, Standing: Writable, Before: contentOf(c.asks.path)}
	if c.asks.refusal {
		ask.Standing = Protected
		q.refusals[ask.Path] = true
	}
	if c.asks.call != 0 {
		ask.Standing, ask.Flags = Outside, c.flags
		if mask, ok := c.umask(); ok {
			ask.Mode = c.mode &^ (uint32(mask) | othersWrite) & 0o777
		}
	}
	err := error(unix.ENOSYS)
	if b.Ask != nil {
		err = b.Ask(ask)
	}
	if ask.Before >= 0 {
		unix.Close(ask.Before)
	}
	if err != nil {
		b.Hear(ask.ID, false, -1) // nobody hears anything any more
	}
}

// contentOf opens the regular file at name.
func contentOf(name string) int {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1
	}
	return fd
}

// Hear takes the answer to a question, and makes the calls that have waited for it. It
// takes fd, which a yes to an open outside brings.
func (b *Broker) Hear(id uint64, yes bool, fd int) {
	defer func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}()
	b.guard(func() { fd = b.hear(id, yes, fd) })
}

// hear gives fd back if no subscriber took it.
func (b *Broker) hear(id uint64, yes bool, fd int) int {
	q := &b.questions
	s, open := q.open[id]
	if !open {
		return fd // of an action that has ended
	}
	delete(q.open, id)
	if s.call != 0 && yes && fd >= 0 {
		for i, p := range q.parked {
			if p.about == s {
				q.parked = slices.Delete(q.parked, i, i+1)
				c := &call{b: b, from: b.listener, id: p.n.id}
				c.finish(reply{hands: true, fd: fd, cloex: p.cloex})
				return -1
			}
		}
		return fd
	}
	about := s
	if s.call != 0 {
		s.call, yes = 0, false
	}
	q.answer(s, yes)
	var st unix.Stat_t
	if yes && s.refusal && unix.Lstat(s.path, &st) == nil {
		delete(b.kept, idOf(&st))
	}
	var again []notification
	rest := q.parked[:0:0]
	for _, p := range q.parked {
		if p.about == about {
			again = append(again, p.n)
		} else {
			rest = append(rest, p)
		}
	}
	q.parked = rest
	for _, n := range again {
		if b.listener != nil && b.listener.waits(n.id) {
			b.take(&n)
		}
	}
	return fd
}

// Tend looks after what is unsettled: late files, and calls that wait although their
// threads have died or got a signal, which would end their wait in the kernel.
func (b *Broker) Tend() { b.guard(b.tend) }

func (b *Broker) tend() {
	b.Settle(false)
	b.detach()
	q := &b.questions
	if len(q.parked) == 0 || time.Since(q.tended) < waitPoll {
		return
	}
	q.tended = time.Now()
	rest := q.parked[:0:0]
	for _, p := range q.parked {
		c := &call{b: b, from: b.listener, id: p.n.id, tid: int(p.n.pid), proc: -1}
		switch {
		case !c.waits():
		case c.signalled():
			c.from.answer(c.id, 0, restartSys)
		default:
			rest = append(rest, p)
		}
		c.close()
	}
	q.parked = rest
}

// Unsettled is how soon the broker has something to look at, 0 for never.
func (b *Broker) Unsettled() time.Duration {
	switch {
	case b == nil:
		return 0
	case len(b.late) > 0:
		return LatePoll
	case len(b.questions.parked) > 0:
		return waitPoll
	case len(b.attachments) > 0:
		return attachPoll
	}
	return 0
}
