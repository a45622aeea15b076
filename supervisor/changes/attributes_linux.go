package changes

import (
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttributes is how many bytes of extended attributes are kept of one file.
const maxAttributes = 16 << 10

// attributesOf are the extended attributes of a file that its owner may set (user.*), as text:
// "" for none. Those of an overlay are the draft's own (userxattr).
func attributesOf(fd int) string {
	names := make([]byte, maxAttributes)
	n, err := unix.Flistxattr(fd, names)
	if err != nil || n == 0 {
		return "" // what has more names than that is no attribute that anybody reads
	}
	kept, size := map[string][]byte{}, 0
	for _, name := range strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, maxAttributes)
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
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
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		err = errors.Join(err, unix.Fsetxattr(fd, name, value, 0))
	}
	return err
}
