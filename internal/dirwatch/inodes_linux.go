package dirwatch

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// named is fanotify(7) in the form that needs no privilege (Linux 5.17). It reports what inotify(7) does, and of which file: so a
// second name of a file that was there is known, whatever becomes of that name. What it cannot watch is inotify's.
type named struct {
	fd      int
	wds     map[string]int32 // below 0, by the directory's handle
	handles map[int32]string
	last    int32
}

const (
	// FAN_REPORT_DFID_NAME_TARGET: the directory and the name, and the file.
	reportFiles = unix.FAN_REPORT_DFID_NAME_TARGET
	fileEvents  = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO | unix.FAN_ATTRIB | unix.FAN_DELETE_SELF |
		unix.FAN_MOVE_SELF | unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE | unix.FAN_OPEN | unix.FAN_ONDIR | unix.FAN_EVENT_ON_CHILD
)

func newNamed() *named {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|reportFiles, 0)
	if err != nil {
		return nil
	}
	return &named{fd: fd, wds: map[string]int32{}, handles: map[int32]string{}}
}

// add gives 0 where inotify(7) has to do.
func (n *named) add(fd int) int32 {
	if n == nil {
		return 0
	}
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil || inodeOf(h.Type(), h.Bytes()) == 0 {
		return 0
	}
	key := handleKey(h.Type(), h.Bytes())
	if unix.FanotifyMark(n.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR, fileEvents, fd, "") != nil {
		return 0
	}
	wd, known := n.wds[key]
	if !known {
		n.last--
		wd = n.last
		n.wds[key], n.handles[wd] = wd, key
	}
	return wd
}

// handleKey is the same for two directories of two file systems at worst: what is reported of one is taken for both.
func handleKey(kind int32, handle []byte) string {
	return string(binary.NativeEndian.AppendUint32(nil, uint32(kind))) + string(handle)
}

// inodeOf is the number of the file that a handle is of, on the file systems whose handles are known here, or 0.
func inodeOf(kind int32, handle []byte) uint64 {
	const ino32, ino64, btrfs = 0x01, 0x81, 0x4d
	word := func(at int) uint64 { return uint64(binary.NativeEndian.Uint32(handle[4*at:])) }
	switch {
	case kind == ino32 && len(handle) == 8: // ext4, f2fs, xfs
		return word(0)
	case kind == ino32 && len(handle) == 12: // tmpfs
		return word(1) | word(2)<<32
	case kind == ino64 && len(handle) == 12, kind == btrfs && len(handle) >= 8:
		return word(0) | word(1)<<32
	}
	return 0
}

// remove forgets a directory: nobody has a key of what is still reported of it.
func (n *named) remove(wd int32) {
	delete(n.wds, n.handles[wd])
	delete(n.handles, wd)
}

// changed reads what has happened. It gives false if that is not all.
func (n *named) changed(do func(event)) (complete bool) {
	if n == nil {
		return true
	}
	complete = true
	var buf [64 << 10]byte
	for {
		got, err := unix.Read(n.fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return complete
		case err != nil:
			return false
		}
		for b := buf[:got]; len(b) >= unix.FAN_EVENT_METADATA_LEN; {
			size, head, mask := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint64(b[8:])
			if size < uint32(head) || size > uint32(len(b)) {
				return false
			}
			complete = complete && mask&unix.FAN_Q_OVERFLOW == 0
			n.event(mask, b[head:size], do)
			b = b[size:]
		}
	}
}

func (n *named) event(mask uint64, records []byte, do func(event)) {
	if mask&^(unix.FAN_OPEN|unix.FAN_ONDIR) == 0 && mask&unix.FAN_ONDIR != 0 { // to list it changes nothing
		return
	}
	e := event{came: mask&unix.FAN_CREATE != 0, went: mask&unix.FAN_DELETE != 0, left: mask&unix.FAN_MOVED_FROM != 0, taken: mask&unix.FAN_MOVED_TO != 0, dir: mask&unix.FAN_ONDIR != 0, known: true}
	const header, handleHead = 12, 8 // type, length and file system; length and type of the handle
	for len(records) >= header+handleHead {
		size, length := int(binary.NativeEndian.Uint16(records[2:])), int(binary.NativeEndian.Uint32(records[header:]))
		if size < header+handleHead+length || size > len(records) {
			break
		}
		kind := int32(binary.NativeEndian.Uint32(records[header+4:]))
		handle := records[header+handleHead:][:length]
		switch records[0] {
		case unix.FAN_EVENT_INFO_TYPE_DFID_NAME:
			e.wd = n.wds[handleKey(kind, handle)]
			e.name, _, _ = strings.Cut(string(records[header+handleHead+length:size]), "\x00")
		case unix.FAN_EVENT_INFO_TYPE_FID:
			if !e.dir {
				e.inode = inodeOf(kind, handle)
			}
		}
		records = records[size:]
	}
	if e.gone = mask&unix.FAN_DELETE_SELF != 0 && e.name == Itself; e.gone {
		n.remove(e.wd)
	}
	if e.wd != 0 {
		do(e)
	}
}
