package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// queuePlaces are where the queue for names may lie. The first that can be used is the
// same for every supervisor of a user.
var queuePlaces = []string{"/tmp", "/var/tmp", "/dev/shm"}

// queueMode lets its owner write, and nobody read.
const queueMode = 0o200

// nameQueue opens the file whose lock every broker of this user takes from looking at a
// name to acting on it: with a queue each, one sandbox could rename a directory in which
// another has just been let make a file. flock(2) wants no more than a descriptor, and a
// program that held the lock would stop every broker of its user. So nobody may read the
// file: to open it takes the right to write in its directory, and one to read is not enough.
func nameQueue() (*os.File, error) {
	var errs []error
	for _, place := range queuePlaces {
		name := fmt.Sprintf("%s/.sandgate-names-%d", place, os.Geteuid())
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, queueMode)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 {
			if err := unix.Fchmod(fd, queueMode); err == nil { // whatever the umask is, or who made it before
				return os.NewFile(uintptr(fd), name), nil
			}
		}
		unix.Close(fd)
		errs = append(errs, fmt.Errorf("%s belongs to somebody else", name))
	}
	return nil, &Unenforceable{Part: "the queue for names", Reason: errors.Join(errs...).Error(), Hint: "make /tmp or /dev/shm writable"}
}
