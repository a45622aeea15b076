package broker

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// Other users of the machine get no right to write from a program: whoever may write in a directory puts a
// hook there once it is git's, or settings that an editor or a build tool obeys, and whoever may write a file changes
// what a person has read. By its name a directory is harmless today: it can become git's in many ways, in several steps,
// and by another sandbox at the same time. So the rule knows no names. The bit is taken off, like by a umask,
// as archives, copies and scripts ask for it by habit and need it for nothing.

// othersWrite is the mode bit by which every user of the machine may write.
const othersWrite = 0o002

// keepsOthersOut is mode as a file gets it. What everybody may write already can stay so.
func (b *Broker) keepsOthersOut(t target, mode uint32) uint32 {
	if t.st.Mode&othersWrite != 0 || b.private(t.full, t.st.Dev) {
		return mode
	}
	return mode &^ othersWrite
}

// private reports whether a file lies in a directory of the sandbox's own, where nobody else comes
// and from which nothing is moved out. A file without a name can get one elsewhere.
func (b *Broker) private(name string, device uint64) bool {
	if b.mounts {
		return b.scratch[device]
	}
	pool, _ := b.poolOf(name)
	return name != "" && (b.Rules.own(name) || pool != nil)
}

// setUmask is umask(2). Where the broker makes the files, the call decides nothing and may go on. Where
// programs make them, the filter sends those masks here that would let others write: the old one stays, and is
// the answer, as most programs that set such a mask only want to know theirs.
func (c *call) setUmask() reply {
	if !c.b.mounts {
		c.b.masked.Store(true)
		return reply{native: true}
	}
	c.b.masked.Store(true)
	mask, ok := c.umask()
	if !ok {
		return fails(unix.ESRCH)
	}
	return reply{value: int64(mask)}
}

// An access list (acl(5)) has the right of others once more, and that of a directory for what will be made in it
// takes the place of the umask. Its other entries name the user and groups of the sandbox at most: no other number
// has a meaning there.
const (
	accessList  = "system.posix_acl_"
	aclHeader   = 4
	aclEntry    = 8
	aclOther    = 0x20
	aclWrite    = 0x2
	maxAttrSize = 64 << 10
)

func (c *call) setAttribute(flags int) reply {
	find, errno := c.byPath(cwd, c.args[0], flags)
	if errno != 0 {
		return fails(errno)
	}
	return c.setAttributeOf(find)
}

// setAttributeOf is setxattr(2).
func (c *call) setAttributeOf(find func(*walk) (target, unix.Errno)) reply {
	name, errno := c.text(c.args[1])
	if errno != 0 {
		return fails(errno)
	}
	size := c.args[3]
	if size > maxAttrSize {
		return fails(unix.E2BIG)
	}
	value := make([]byte, size)
	if c.read(c.args[2], value) != len(value) {
		return fails(unix.EFAULT)
	}
	return c.changeMeta(find, nil, func(t target) error {
		if strings.HasPrefix(name, accessList) && c.b.keepsOthersOut(t, othersWrite) == 0 {
			for at := aclHeader; at+aclEntry <= len(value); at += aclEntry {
				if binary.NativeEndian.Uint16(value[at:]) == aclOther {
					binary.NativeEndian.PutUint16(value[at+2:], binary.NativeEndian.Uint16(value[at+2:])&^aclWrite)
				}
			}
		}
		return unix.Setxattr(linkOf(t.fd), name, value, int(c.int(4)))
	})
}
