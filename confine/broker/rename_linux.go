package broker

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

func (c *call) renameAt(oldDir int32, oldAddr uint64, newDir int32, newAddr uint64, flags uint) reply {
	const exchange, noReplace = unix.RENAME_EXCHANGE, unix.RENAME_NOREPLACE
	if flags&^(exchange|noReplace) != 0 || flags == exchange|noReplace {
		return fails(unix.EINVAL)
	}
	old, errno := c.text(oldAddr)
	if errno != 0 {
		return fails(errno)
	}
	name, unread := c.text(newAddr) // the kernel finds the old directory first
	return c.b.locked(func() reply {
		m := move{walk: walk{call: c}, flags: flags}
		if errno := m.find(oldDir, old, newDir, name, unread); errno != 0 {
			return fails(errno)
		}
		return fails(m.run())
	})
}

// A move is one rename under way.
type move struct {
	walk
	flags    uint
	from, to location
	// Where they lie, and what is there; to may be free.
	fromFull, toFull string
	fromStat, toStat unix.Stat_t
	replaces         bool
	// checked is a protected file that the source is to become: its content was judged.
	checked []byte
	// was is the configuration of a person's that it replaces, as that was at first.
	was string
	// reached says of a directory's new name how deep it decides about what lies below, and
	// below has what was judged there.
	reached map[string]int
	below   map[string]bool
}

func (m *move) find(oldDir int32, old string, newDir int32, name string, unread unix.Errno) unix.Errno {
	var errno unix.Errno
	if m.from, errno = m.locate(oldDir, old); errno != 0 {
		return errno
	}
	if unread != 0 {
		return unread
	}
	if m.to, errno = m.locate(newDir, name); errno != 0 {
		return errno
	}
	return m.look()
}

// look finds out what lies at both ends.
func (m *move) look() (errno unix.Errno) {
	if m.otherFileSystem(m.from, m.to) {
		return unix.EXDEV
	}
	if m.from.odd() {
		return unix.EBUSY
	}
	if m.to.odd() {
		if m.flags&unix.RENAME_NOREPLACE != 0 {
			return unix.EEXIST
		}
		return unix.EBUSY
	}
	if m.fromFull, errno = m.full(m.from); errno != 0 {
		return errno
	}
	if m.toFull, errno = m.full(m.to); errno != 0 {
		return errno
	}
	// Each directory that the profile grants by itself is left by copying too, as between mounts: of
	// a file with two names one would come to lie where another call may write.
	if m.b.crosses(m.fromFull, m.toFull) || m.b.Rules.grant(m.fromFull) != m.b.Rules.grant(m.toFull) {
		return unix.EXDEV
	}
	if err := unix.Fstatat(m.from.dir, m.from.name(), &m.fromStat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err)
	}
	err := unix.Fstatat(m.to.dir, m.to.name(), &m.toStat, unix.AT_SYMLINK_NOFOLLOW)
	m.replaces = err == nil
	return 0
}

// otherFileSystem reports whether two places are on different ones. The kernel says so
// before it says anything about rights, and programs copy then.
func (w *walk) otherFileSystem(a, b location) bool {
	var one, other unix.Stat_t
	return unix.Fstat(a.dir, &one) == nil && unix.Fstat(b.dir, &other) == nil && one.Dev != other.Dev
}

// crosses reports whether one of two names lies in a directory of the sandbox's own and the
// other does not. No pattern holds in the one, and programs' domain grants all that is
// in it: what came there from elsewhere would be withheld and protected no more, and what
// was made there would lie elsewhere without ever having been judged. So it is left and
// entered by copying, as a file system of its own is.
func (b *Broker) crosses(from, to string) bool { return b.Rules.own(from) != b.Rules.own(to) }

func (m *move) run() unix.Errno {
	rename := func() error {
		return unix.Renameat2(m.from.dir, m.from.last, m.to.dir, m.to.last, m.flags)
	}
	switch {
	case m.flags&unix.RENAME_NOREPLACE != 0 && m.replaces:
		return unix.EEXIST
	case m.flags&unix.RENAME_EXCHANGE != 0 && !m.replaces:
		return unix.ENOENT
	case m.b.isKept(&m.fromStat):
		return m.verdict(m.fromFull, stricter(m.b.standing(m.fromFull)))
	case m.replaces && fold(m.to.name()) == ".git" && m.b.watchesGit(m.toFull) && !m.b.made.has(&m.toStat, m.to.dir, m.to.name()):
		return m.verdict(m.toFull, Protected)
	case m.replaces && m.b.isKept(&m.toStat) && m.b.gitNameOf(m.toFull) != gitConfig:
		return m.verdict(m.toFull, stricter(m.b.standing(m.toFull)))
	}
	if private, errno := m.judgePrivate(); private {
		if errno == 0 {
			errno = m.acting(rename)
		}
		if errno == 0 {
			var back *unix.Stat_t
			if m.flags&unix.RENAME_EXCHANGE != 0 {
				back = &m.toStat
			}
			m.b.moved(m.fromFull, m.toFull, &m.fromStat, back)
		}
		return errno
	}
	from, to := m.judged(m.from, m.fromFull), m.judged(m.to, m.toFull)
	if errno := m.judgeMove(m.fromFull, m.toFull, &m.fromStat, m.from); errno != 0 {
		return errno
	}
	if m.flags&unix.RENAME_EXCHANGE != 0 {
		if errno := m.judgeMove(m.toFull, m.fromFull, &m.toStat, m.to); errno != 0 {
			return errno
		}
		if m.checked != nil {
			return m.verdict(m.toFull, Protected) // what is judged is not swapped, it is replaced
		}
	}
	if m.checked != nil {
		return m.installs(to)
	}
	errno := m.renames(from, to, rename)
	if errno == 0 && m.replaces && m.flags&unix.RENAME_EXCHANGE == 0 {
		delete(m.b.bound, idOf(&m.toStat))
	}
	return errno
}

// judgePrivate judges a move with an end in a private place.
func (m *move) judgePrivate() (private bool, errno unix.Errno) {
	private, errno = m.b.judgePools(m.fromFull, m.toFull, &m.fromStat)
	if errno == 0 && private {
		errno = m.judgeShared(m.from, m.fromFull, m.toFull, &m.fromStat)
	}
	if errno == 0 && private && m.flags&unix.RENAME_EXCHANGE != 0 {
		if _, errno = m.b.judgePools(m.toFull, m.fromFull, &m.toStat); errno == 0 {
			errno = m.judgeShared(m.to, m.toFull, m.fromFull, &m.toStat)
		}
	}
	return private, errno
}

// judgeShared judges what gets another name in a private place: others see it there, and
// follow a link.
func (m *move) judgeShared(at location, from, to string, st *unix.Stat_t) unix.Errno {
	if errno := m.judgeEntry(to, st.Mode&unix.S_IFMT == unix.S_IFSOCK); errno != 0 {
		return errno
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, errno := readLink(at.dir, at.name())
		if errno != 0 {
			return errno
		}
		return m.judgeLink(to, target)
	case unix.S_IFDIR:
		return m.judgeParent(at, from, to)
	}
	return 0
}

// judgeParent judges what a directory that gets another parent takes with it.
func (m *move) judgeParent(at location, from, to string) unix.Errno {
	if path.Dir(from) == path.Dir(to) && BelowGit(from) == BelowGit(to) || m.b.Rules.own(to) {
		return 0
	}
	return m.judgeMoved(at.dir, at.name(), from, to, 0, m.b.newBudget(maxMoved))
}

// stricter is the status of a file that was protected or hidden at the start, under a
// name with status s.
func stricter(s Standing) Standing {
	if s == Writable {
		return Protected
	}
	return s
}

// judgeMove judges what a name and all below it become.
func (m *move) judgeMove(from, to string, st *unix.Stat_t, at location) unix.Errno {
	rules := m.b.Rules
	old, becomes := m.b.standing(from), m.b.standing(to)
	if old == Protected && m.b.made.has(st, at.dir, at.name()) && becomes == Writable && st.Mode&unix.S_IFMT == unix.S_IFREG {
		old = Writable
	}
	if errno := m.verdict(from, old); errno != 0 {
		return errno
	}
	if errno := m.keepsRepository(at, from, st); errno != 0 {
		return errno
	}
	if becomes == Protected && m.b.gitNameOf(to) == gitConfig && st.Mode&unix.S_IFMT == unix.S_IFREG {
		if errno := m.about(to); errno != 0 {
			return errno
		}
		return m.judgeConfig(to, at)
	}
	if becomes == Protected && m.b.gitNameOf(to) == gitSample && st.Mode&unix.S_IFMT == unix.S_IFREG {
		return m.about(to)
	}
	if errno := m.verdict(to, becomes); errno != 0 {
		return errno
	}
	if errno := m.appear(m.other(at), to); errno != 0 {
		return errno
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, errno := readLink(at.dir, at.name())
		if errno != 0 {
			return errno
		}
		return m.judgeLink(to, target)
	case unix.S_IFREG:
		if m.b.sends(to) {
			return m.judgeSent(to, at)
		}
		return 0
	case unix.S_IFDIR:
	default:
		return 0
	}
	if rules.Splits(from) || rules.Splits(to) {
		return unix.EBUSY
	}
	if st.Mode&othersWrite != 0 && m.b.servesGit(to) && !m.b.servesGit(from) {
		return m.verdict(to, Protected)
	}
	if errno := m.holdsRepository(at.dir, at.name(), from, m.b.newBudget(maxMoved)); errno != 0 {
		return errno
	}
	if errno := m.judgeParent(at, from, to); errno != 0 {
		return errno
	}
	reach := max(m.b.reach(from), m.b.reach(to))
	if reach == 0 {
		return 0
	}
	if m.reached == nil {
		m.reached, m.below = map[string]int{}, map[string]bool{}
	}
	m.reached[to] = reach
	return m.judgeBelow(at.dir, at.name(), from, to, reach, m.b.newBudget(maxBelow))
}

// other is the other end of the move.
func (m *move) other(at location) location {
	if at == m.from {
		return m.to
	}
	return m.from
}

// judgeSent is judgeConfig for a file that sends git elsewhere.
func (m *move) judgeSent(to string, at location) unix.Errno {
	text, errno := readWhole(at.dir, at.name())
	if errno != 0 || !m.b.maySend(to, string(text)) {
		return m.verdict(to, Protected)
	}
	m.checked = append([]byte{}, text...)
	return 0
}

// A budget bounds the checks that are made while other calls wait for the queue for names:
// how many names, and how long all checks of a call take, since the cost of a name depends on
// its path.
type budget struct {
	*Broker
	names int
}

// maxLook is that time, of the thread's processor time: a busy machine makes it no smaller.
const maxLook = 100 * time.Millisecond

func (b *Broker) newBudget(names int) *budget { return &budget{b, names} }

// spend reports whether one more name may be looked at.
func (b *budget) spend() bool {
	b.names--
	return b.names >= 0 && b.mayLook()
}

// mayLook reports whether the call under way may look further. Its time begins with the
// first look.
func (b *Broker) mayLook() bool {
	now := threadTime()
	if b.until == 0 {
		b.until = now + maxLook
	}
	return now < b.until
}

// threadTime is the processor time of the thread that serves.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 1 << 62 // and nothing may be looked at
	}
	return time.Duration(t.Nano())
}

// maxBelow is how many names are looked at when a directory gets a name that decides
// about them.
const maxBelow = 10_000

// judgeBelow looks at what lies in a directory that is to get another name, as deep as
// that name decides.
func (m *move) judgeBelow(at int, called, from, to string, reach int, left *budget) unix.Errno {
	dir, entries, err := listed(at, called, left.names)
	if err != nil {
		return m.verdict(to, Protected)
	}
	defer dir.Close()
	for _, e := range entries {
		if !left.spend() {
			return m.verdict(to, Protected)
		}
		oldName, newName := path.Join(from, e.Name()), path.Join(to, e.Name())
		old, becomes := m.b.standing(oldName), m.b.standing(newName)
		becomesHooks := old != becomes && m.b.harmlessHooks(e, newName, becomes)
		if !becomesHooks && (old != Writable || becomes != Writable) {
			m.below[newName] = true
		}
		if old != becomes && !becomesHooks {
			worst := becomes
			if worst == Writable { // out of a protected name
				worst = old
			}
			return m.verdict(newName, worst)
		}
		if old == Writable && becomes == Writable && e.Type()&os.ModeSymlink != 0 && m.b.reach(newName) > 0 {
			return m.verdict(newName, Protected)
		}
		deeper := reach - 1
		if becomesHooks {
			deeper = max(deeper, 1) // what lies in it becomes a hook
		}
		if !e.IsDir() || deeper < 1 {
			continue
		}
		if errno := m.judgeBelow(int(dir.Fd()), e.Name(), oldName, newName, deeper, left); errno != 0 {
			return errno
		}
	}
	return 0
}

// harmlessHooks reports whether an entry is the directory of hooks, or a sample in it.
func (b *Broker) harmlessHooks(e os.DirEntry, name string, becomes Standing) bool {
	if becomes != Protected {
		return false
	}
	switch b.gitNameOf(name) {
	case gitHooks:
		return e.IsDir()
	case gitSample:
		return e.Type().IsRegular()
	}
	return false
}

// judgeConfig reads what is to become a git configuration. What is installed is the copy
// that was judged: of the source a program may have a descriptor, a mapping or a link.
func (m *move) judgeConfig(to string, at location) unix.Errno {
	text, errno := readWhole(at.dir, at.name())
	if errno != 0 {
		return m.verdict(to, Protected)
	}
	if to == m.toFull && m.replaces {
		if m.toStat.Mode&unix.S_IFMT != unix.S_IFREG {
			return m.verdict(to, Protected)
		}
		old, errno := readWhole(m.to.dir, m.to.name())
		if errno != 0 {
			return m.verdict(to, Protected)
		}
		m.was = m.b.wasOf(m.replaced(), string(old))
	}
	if !mayBecome(m.was, string(text), path.Dir(to), m.b.changeable) {
		return m.verdict(to, Protected)
	}
	m.checked = text
	if m.checked == nil {
		m.checked = []byte{}
	}
	return 0
}

// replaced is the file that lies where the source is to go.
func (m *move) replaced() birth { return birth{idOf(&m.toStat), born(m.to.dir, m.to.name())} }

// readWhole reads a small regular file.
func readWhole(dir int, name string) ([]byte, unix.Errno) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errnoOf(err)
	}
	defer unix.Close(fd)
	return readOpen(fd)
}

func readOpen(fd int) ([]byte, unix.Errno) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, unix.EINVAL
	}
	text := make([]byte, min(st.Size, maxConfig)+1)
	n := 0
	for n < len(text) {
		got, err := unix.Pread(fd, text[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, errnoOf(err)
		}
		if got == 0 {
			return text[:n], 0
		}
		n += got
	}
	return nil, unix.EFBIG
}

// install puts the checked content in the place of the source, and removes that.
func (m *move) install(stands func() bool) error {
	own := !m.replaces || m.b.made.has(&m.toStat, m.to.dir, m.to.name())
	st, err := installCopy(m.to.dir, m.to.name(), m.checked, m.fromStat.Mode&0o777, false, stands)
	if err != nil {
		return err
	}
	if m.replaces {
		m.b.forgetConfig(m.replaced())
	}
	if own {
		delete(m.b.made, idOf(&m.toStat))
		m.b.made.add(&st, m.to.dir, m.to.name())
	}
	m.b.installed(&st, m.to.dir, m.to.name(), config{string(m.checked), m.was})
	if m.replaces && m.b.isKept(&m.toStat) {
		m.b.kept[idOf(&st)] = true
		if m.toStat.Nlink == 1 { // it is gone, and its number is free for another file
			delete(m.b.kept, idOf(&m.toStat))
		}
	}
	return unix.Unlinkat(m.from.dir, m.from.name(), 0)
}

// installCopy makes a file with content and gives it a name. It takes it away again unless
// the name stands then, and what it has replaced has the name again: that may be a person's.
// isNew says that the copy replaces nothing.
func installCopy(dir int, name string, content []byte, mode uint32, isNew bool, stands func() bool) (st unix.Stat_t, err error) {
	temp := tempName()
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	for rest := content; err == nil && len(rest) > 0; {
		var n int
		if n, err = unix.Write(fd, rest); err == nil {
			rest = rest[n:]
		}
	}
	if err == nil {
		err = unix.Fchmod(fd, mode&^0o002)
	}
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	swapped := false
	if err == nil {
		swapped, err = giveName(dir, temp, name, isNew)
	}
	switch {
	case err != nil:
		_ = unix.Unlinkat(dir, temp, 0)
	case stands():
		if swapped {
			_ = unix.Unlinkat(dir, temp, 0)
		}
	case swapped:
		err = giveBack(dir, temp, name, &st)
	default:
		takeAway(dir, func() error { return unix.Unlinkat(dir, name, 0) })
		err = unix.EROFS
	}
	return st, err
}

// giveName renames temp. It swaps it with what has the name, where the file system can.
func giveName(dir int, temp, name string, isNew bool) (swapped bool, err error) {
	if isNew {
		return false, unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	}
	if err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE); err != unix.ENOENT && err != unix.EINVAL {
		return err == nil, err
	}
	return false, unix.Renameat2(dir, temp, dir, name, 0)
}

// giveBack gives the file at temp its old name, unless another process has put another
// file in the copy's place.
func giveBack(dir int, temp, name string, copied *unix.Stat_t) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&st) == idOf(copied) {
		takeAway(dir, func() error { return unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE) })
	}
	takeAway(dir, func() error { return unix.Unlinkat(dir, temp, 0) })
	return unix.EROFS
}

func tempName() string { return tempPrefix + randomName() }

// lateName is for a file that programs write to.
func lateName() string { return ".sandgate-" + randomName() }

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand: it never fails
	return hex.EncodeToString(b[:])
}
