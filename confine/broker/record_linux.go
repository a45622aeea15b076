package broker

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The record of a pool lies in its hidden directory, and says which files in its place are
// the sandbox's: its inodes, and the links and sockets that programs have made there. Who
// cleans up after a broker that was killed knows them by it. A file is known by its number
// and its birth, since a removed file's number becomes another's.
const recordName = "record"

// maxRecorded bounds the links and sockets directly in a place.
const maxRecorded = 256

func recordLine(dir int, name string, st *unix.Stat_t) string {
	when := born(dir, name)
	return fmt.Sprintf("%d %d.%d\n", st.Ino, when.Sec, when.Nsec)
}

// Record writes the record of a new pool.
func (o Pool) Record() error {
	dir, err := os.Open(o.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		text.WriteString(recordLine(int(dir.Fd()), name, &st))
	}
	return os.WriteFile(path.Join(o.Dir, recordName), []byte(text.String()), 0o600)
}

// Entries are the names in the place of what the record lists.
func (o Pool) Entries() (list []string) {
	text, _ := os.ReadFile(path.Join(o.Dir, recordName)) // none: then nothing is known
	lines, numbers := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(line, " ")
		lines[line], numbers[number] = true, true
	}
	// A place has many names of others. Most sandboxes have none there: all that is theirs
	// lies where it lay at the start.
	own, _ := os.ReadDir(o.Dir)
	for _, e := range own {
		if info, err := e.Info(); err == nil {
			if st := info.Sys().(*syscall.Stat_t); st.Nlink == 1 || info.IsDir() {
				delete(numbers, strconv.FormatUint(st.Ino, 10))
			}
		}
	}
	owner, err := os.Lstat(o.Dir)
	if err != nil || len(numbers) == 0 {
		return nil
	}
	place, err := os.Open(o.Place)
	if err != nil {
		return nil
	}
	defer place.Close()
	entries, _ := place.ReadDir(-1)
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Fstatat(int(place.Fd()), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Uid != owner.Sys().(*syscall.Stat_t).Uid {
			continue
		}
		if numbers[strconv.FormatUint(st.Ino, 10)] && lines[recordLine(int(place.Fd()), e.Name(), &st)] {
			list = append(list, path.Join(o.Place, e.Name()))
		}
	}
	return list
}

// record notes that the entry name of the directory is the sandbox's.
func (p *pool) record(dir int, name string, st *unix.Stat_t) error {
	if _, known := p.known[idOf(st)]; known {
		return nil
	}
	if p.recorded == nil {
		p.recorded = map[FileID]string{}
	}
	line := recordLine(dir, name, st)
	if p.recorded[idOf(st)] == line {
		return nil
	}
	if len(p.recorded) >= maxRecorded {
		if err := p.forget(); err != nil {
			return err
		}
	}
	p.recorded[idOf(st)] = line
	fd, err := unix.Openat(p.dirFD, recordName, unix.O_WRONLY|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(line))
	return err
}

// forget drops what is not in the place any more, and fails if nothing was dropped. The
// record keeps it: no other file is known by it.
func (p *pool) forget() error {
	there := map[FileID]bool{}
	for _, at := range p.taken {
		there[at.file] = true
	}
	for id := range p.recorded {
		if !there[id] {
			delete(p.recorded, id)
		}
	}
	if len(p.recorded) >= maxRecorded {
		return unix.ENOSPC
	}
	return nil
}
