package changes

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttributes is how many bytes of extended attributes are kept of one file.
const maxAttributes = 16 << 10

// accessList is the attribute of an access control list (acl(5)). Where there is one, the mode's bits of the group
// are its mask, and not what the group may do.
const accessList = "system.posix_acl_access"

// defaultList is the list that new files in a directory get.
const defaultList = "system.posix_acl_default"

// attributesOf are the extended attributes of a file that its owner may set (user.*, and its access control
// list), as text: "" for none. Those of an overlay are the draft's own (userxattr).
func attributesOf(fd int) string {
	names := make([]byte, maxAttributes)
	n, err := unix.Flistxattr(fd, names)
	if err != nil || n == 0 {
		return "" // what has more names than that is no attribute that anybody reads
	}
	kept, size := map[string][]byte{}, 0
	for _, name := range strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, maxAttributes)
		if name != accessList && !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		if n, err := unix.Fgetxattr(fd, name, value); err == nil && size+n <= maxAttributes {
			kept[name], size = value[:n], size+n
		}
	}
	if len(kept) == 0 {
		return ""
	}
	b, _ := json.Marshal(kept) // keys in order
	return string(b)
}

// setAttributes gives them to a new file.
func setAttributes(fd int, text string) error {
	if text == "" {
		return nil
	}
	var kept map[string][]byte
	err := json.Unmarshal([]byte(text), &kept)
	for name, value := range kept {
		if name != accessList && name != defaultList && !strings.HasPrefix(name, "user.") {
			continue
		}
		err = errors.Join(err, unix.Fsetxattr(fd, name, value, 0))
	}
	return err
}

// Entries of a list (linux/posix_acl.h).
const userObj, groupObj, mask, other = 0x01, 0x04, 0x10, 0x20

// withoutList is the mode of a file without its access control list: rights that the list gives to others
// than the owner, the group and everybody are dropped.
func withoutList(mode uint32, attributes string) uint32 {
	list := listOf(attributes)
	if list == nil {
		return mode
	}
	group, most := uint16(0), uint16(7)
	for at := 4; at+8 <= len(list); at += 8 { // version, then tag, permissions and ID of each entry
		perm := binary.LittleEndian.Uint16(list[at+2:])
		switch binary.LittleEndian.Uint16(list[at:]) {
		case groupObj:
			group = perm
		case mask:
			most = perm
		}
	}
	return mode&^0o070 | uint32(group&most&7)<<3
}

// listOfDirectory are the attributes that are kept of a directory: its access control lists.
func listOfDirectory(fd int) string {
	kept := map[string][]byte{}
	for _, name := range []string{accessList, defaultList} {
		value := make([]byte, maxAttributes)
		if n, err := unix.Fgetxattr(fd, name, value); err == nil && n > 0 {
			kept[name] = value[:n]
		}
	}
	if len(kept) == 0 {
		return ""
	}
	b, _ := json.Marshal(kept) // keys in order
	return string(b)
}

// dropLists takes away the lists of a directory.
func dropLists(fd int) {
	for _, name := range []string{accessList, defaultList} {
		_ = unix.Fremovexattr(fd, name) // there is none, mostly
	}
}

// dropList takes away the list that a new file has of its directory.
func dropList(fd int) { _ = unix.Fremovexattr(fd, accessList) } // there is none, mostly

func listOf(attributes string) []byte {
	var kept map[string][]byte
	if attributes == "" || json.Unmarshal([]byte(attributes), &kept) != nil {
		return nil
	}
	return kept[accessList]
}

// keepList gives an entry of a draft the access control lists of what it takes the place of: a call has not taken them
// away, since the mode would be another one, but the disk of drafts may have none.
func keepList(e, of *Entry) *Entry {
	if e == nil || of == nil || of.Attributes == "" {
		return e
	}
	with := *e
	if e.IsDir() && of.IsDir() {
		if e.Attributes == "" {
			with.Attributes = chmodList(of.Attributes, e.Mode)
		}
		return &with
	}
	list := listOf(of.Attributes)
	if list == nil || e.Mode != of.Mode || listOf(e.Attributes) != nil {
		return e
	}
	kept := map[string][]byte{}
	if e.Attributes != "" && json.Unmarshal([]byte(e.Attributes), &kept) != nil {
		return e
	}
	kept[accessList] = list
	b, _ := json.Marshal(kept)
	with.Attributes = string(b)
	return &with
}

// chmodList is the result of chmod(2) on a list: the mode's bits of the group are its
// mask.
func chmodList(attributes string, mode uint32) string {
	var kept map[string][]byte
	if json.Unmarshal([]byte(attributes), &kept) != nil || kept[accessList] == nil {
		return attributes
	}
	list, masked := kept[accessList], false
	for at := 4; at+8 <= len(list); at += 8 {
		masked = masked || binary.LittleEndian.Uint16(list[at:]) == mask
	}
	for at := 4; at+8 <= len(list); at += 8 {
		bits := map[uint16]uint32{userObj: mode >> 6, mask: mode >> 3, other: mode}
		if !masked {
			bits[groupObj] = mode >> 3
		}
		if perm, of := bits[binary.LittleEndian.Uint16(list[at:])]; of {
			binary.LittleEndian.PutUint16(list[at+2:], uint16(perm&7)) //nolint:gosec // three bits
		}
	}
	b, _ := json.Marshal(kept)
	return string(b)
}
