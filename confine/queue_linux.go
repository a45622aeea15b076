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

// nameQueue opens the file whose lock every broker of this user takes from looking at a
// name to acting on it: with a queue each, one sandbox could rename a directory in which
// another has just been let make a file. Programs cannot open it for locking: the
// directories it lies in are not granted to them.
func nameQueue() (*os.File, error) {
	var errs []error
	for _, place := range queuePlaces {
		name := fmt.Sprintf("%s/.sandgate-names-%d", place, os.Geteuid())
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 {
			return os.NewFile(uintptr(fd), name), nil
		}
		unix.Close(fd)
		errs = append(errs, fmt.Errorf("%s belongs to somebody else", name))
	}
	return nil, &Unenforceable{Part: "the queue for names", Reason: errors.Join(errs...).Error(), Hint: "make /tmp or /dev/shm writable"}
}
