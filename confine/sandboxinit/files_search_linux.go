package sandboxinit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/fileops"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// performFile does a file operation. Any signal from the confiner, whose time or
// patience is over, ends a search or a read early; a change of a file is not left halfway.
func performFile(kind sandboxprofile.Kind, op sandboxprofile.Operation, temporary string, on disk, stop func() bool) wire.Done {
	switch kind {
	case sandboxprofile.ReadFile:
		return readFile(op, on, stop)
	case sandboxprofile.WriteFile:
		return writeFile(op, temporary, on, stop)
	case sandboxprofile.EditFile:
		return editFile(op, temporary, on, stop)
	case sandboxprofile.ListFiles, sandboxprofile.GlobFiles, sandboxprofile.GrepFiles:
		if op.Search != nil {
			return search(kind, op, on, stop)
		}
	}
	return wire.Done{Op: "action", Errno: int(unix.EINVAL)}
}

func search(kind sandboxprofile.Kind, op sandboxprofile.Operation, on disk, stop func() bool) wire.Done {
	found, err := fileops.Run(on, kind, op, stop)
	if err != nil {
		return failed("open", err)
	}
	return wire.Done{Found: &found, Truncated: found.Stopped != ""}
}

// disk shows fileops the sandbox's files. What init could read and a program could not,
// it does not show.
type disk struct{ shared *shared }

func (d disk) bars(name string) bool { return d.shared.bars(sandboxprofile.ReadFile, name) }

// broker judges what the file tools change where one judges what programs change: a name
// alone does not say what git, say, makes of it. Nil where the mounts decide.
func (d disk) broker() *broker.Broker {
	if d.shared == nil || d.shared.domain < 0 {
		return nil
	}
	return d.shared.broker
}

// withholds reports whether a file is one that programs may not read under any name.
func (d disk) withholds(fd int, name string) bool {
	b := d.broker()
	return b != nil && b.Withholds(fd, path.Clean(name))
}

func (d disk) mkdir(at int, name string, mode uint32) error {
	if b := d.broker(); b != nil {
		return b.Mkdir(at, name, mode)
	}
	return unix.Mkdirat(at, name, mode)
}

// rename gives what is called from, if it is still that file, the name to. Programs of other
// sandboxes, such as background tasks, may change both names.
func (d disk) rename(at int, from, to string, file broker.FileID) error {
	if b := d.broker(); b != nil {
		return b.Rename(at, from, to, file)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, from, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if file != (broker.FileID{Dev: st.Dev, Ino: st.Ino}) {
		return unix.ESTALE
	}
	return unix.Renameat(at, from, at, to)
}

// OpenDir implements fileops.Disk.
func (d disk) OpenDir(name string) (fileops.Dir, error) {
	if d.bars(name) {
		return nil, unix.EACCES
	}
	fd, err := openNoLinks(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return directory{fd, name, d}, nil
}

// OpenFile implements fileops.Disk.
func (d disk) OpenFile(name string) (fileops.File, error) {
	if d.bars(name) {
		return nil, unix.EACCES
	}
	fd, err := openNoLinks(name, fileFlags, 0)
	return d.openedFile(name, fd, err)
}

// fileFlags open what may turn out to be no regular file without waiting for it,
// or making a terminal ours.
const fileFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// directory is an open directory.
type directory struct {
	fd   int
	name string
	on   disk
}

// OpenDir implements fileops.Dir.
func (d directory) OpenDir(name string) (fileops.Dir, error) {
	full := path.Join(d.name, name)
	if d.on.bars(full) {
		return nil, unix.EACCES
	}
	fd, err := openAt(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return directory{fd, full, d.on}, nil
}

// OpenFile implements fileops.Dir.
func (d directory) OpenFile(name string) (fileops.File, error) {
	if d.on.bars(path.Join(d.name, name)) {
		return nil, unix.EACCES
	}
	fd, err := openAt(d.fd, name, fileFlags, 0)
	return d.on.openedFile(path.Join(d.name, name), fd, err)
}

// Size implements fileops.Dir.
func (d directory) Size(name string) int64 {
	var st unix.Stat_t
	if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return st.Size
}

// Close implements fileops.Dir.
func (d directory) Close() error { return unix.Close(d.fd) }

// Entries implements fileops.Dir.
func (d directory) Entries(limit int) ([]fileops.Node, bool, error) {
	var nodes []fileops.Node
	buf := make([]byte, 32<<10)
	for len(nodes) <= limit {
		n, err := unix.Getdents(d.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, false, err
		case n == 0:
			return sorted(nodes), false, nil
		}
		nodes = d.parse(nodes, buf[:n])
	}
	return sorted(nodes[:limit]), true, nil
}

func sorted(nodes []fileops.Node) []fileops.Node {
	slices.SortFunc(nodes, func(a, b fileops.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// parse reads records of struct linux_dirent64, getdents64(2): inode and offset
// of 8 bytes each, the record's length of 2, the type of 1, the name up to a NUL.
func (d directory) parse(nodes []fileops.Node, buf []byte) []fileops.Node {
	const head = 19
	for len(buf) > head {
		length := int(binary.NativeEndian.Uint16(buf[16:]))
		if length <= head || length > len(buf) {
			return nodes
		}
		name, _, _ := bytes.Cut(buf[head:length], []byte{0})
		if text := string(name); text != "." && text != ".." {
			nodes = append(nodes, fileops.Node{Name: text, Type: d.typeOf(text, buf[18])})
		}
		buf = buf[length:]
	}
	return nodes
}

// typeOf names the type of an entry. DT_ values are those of st_mode, moved down
// by 12 bits; a file system that does not tell has DT_UNKNOWN.
func (d directory) typeOf(name string, dt byte) string {
	mode := uint32(dt) << 12
	if dt == unix.DT_UNKNOWN {
		var st unix.Stat_t
		if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			mode = st.Mode
		}
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return fileops.TypeFile
	case unix.S_IFDIR:
		return fileops.TypeDir
	case unix.S_IFLNK:
		return fileops.TypeLink
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// regularFile is an open regular file.
type regularFile struct {
	reader
	size int64
}

// Size implements fileops.File.
func (f regularFile) Size() int64 { return f.size }

// Close implements io.Closer.
func (f regularFile) Close() error { return unix.Close(int(f.reader)) }

var errNotRegular = errors.New("not a regular file")

func (d disk) openedFile(name string, fd int, err error) (fileops.File, error) {
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, errNotRegular
	}
	if d.withholds(fd, name) {
		unix.Close(fd)
		return nil, unix.EACCES
	}
	return regularFile{reader(fd), st.Size}, nil
}
