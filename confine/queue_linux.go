package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/statedir"
)

// queuePlaces are where the queue for names may lie. The first that can be used is the
// same for every supervisor of a user, whatever its environment; the user's own come first,
// because another user can have made the name in those that are everybody's.
func queuePlaces() []string {
	var places []string
	own := fmt.Sprintf("/run/user/%d", os.Geteuid())
	var st unix.Stat_t
	if unix.Lstat(own, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 {
		places = append(places, own)
	}
	if state, err := statedir.Path("queue"); err == nil && os.MkdirAll(state, 0o700) == nil {
		places = append(places, state)
	}
	return append(places, "/tmp", "/var/tmp", "/dev/shm")
}

// queueMode lets its owner write, and nobody read.
const queueMode = 0o200

// nameQueue opens the file whose lock every broker of this user takes from looking at a
// name to acting on it: with a queue each, one sandbox could rename a directory in which
// another has just been let make a file. flock(2) wants no more than a descriptor, and a
// program that held the lock would stop every broker of its user. So nobody may read the
// file: to open it takes the right to write in its directory, and one to read is not enough.
func nameQueue() (*os.File, error) {
	var errs []error
	for _, place := range queuePlaces() {
		name := fmt.Sprintf("%s/.sandgate-names-%d", place, os.Geteuid())
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, queueMode)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 {
			if err := unix.Fchmod(fd, queueMode); err == nil { // whatever the umask is, or who made it before
				return os.NewFile(uintptr(fd), name), nil
			}
		}
		unix.Close(fd)
		errs = append(errs, fmt.Errorf("%s is not this user's own file: it belongs to uid %d, mode %#o", name, st.Uid, st.Mode))
	}
	return nil, &Unenforceable{Part: "the queue for names", Reason: errors.Join(errs...).Error(), Hint: "make the state directory (XDG_STATE_HOME) writable; who owns a name in /tmp can remove it, or root"}
}
