package sandboxprofile

import (
	"fmt"
	"strings"
)

const allRights = Read | Write | Execute

var rightsNames = [...]struct {
	right  Rights
	name   string
	letter byte
}{
	{Read, "read", 'r'},
	{Write, "write", 'w'},
	{Execute, "execute", 'x'},
}

// SubsetOf reports whether r allows nothing that s does not.
func (r Rights) SubsetOf(s Rights) bool { return r&^s == 0 }

// Intersect returns what both r and s allow.
func (r Rights) Intersect(s Rights) Rights { return r & s }

// Union returns what r or s allows.
func (r Rights) Union(s Rights) Rights { return r | s }

// Without returns what r allows and s does not.
func (r Rights) Without(s Rights) Rights { return r &^ s }

// String writes the set for people: {read,execute}, or {} for nothing.
func (r Rights) String() string {
	var names []string
	for _, n := range rightsNames {
		if r&n.right != 0 {
			names = append(names, n.name)
		}
	}
	if rest := r &^ allRights; rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(rest)))
	}
	return "{" + strings.Join(names, ",") + "}"
}

// MarshalText writes the set as ls(1) would: "rwx", "r-x", "---".
func (r Rights) MarshalText() ([]byte, error) {
	if !r.SubsetOf(allRights) {
		return nil, fmt.Errorf("sandboxprofile: unknown rights %#x", uint8(r))
	}
	b := []byte("---")
	for i, n := range rightsNames {
		if r&n.right != 0 {
			b[i] = n.letter
		}
	}
	return b, nil
}

// UnmarshalText reads what MarshalText writes, and nothing else.
func (r *Rights) UnmarshalText(b []byte) error {
	parsed, err := ParseRights(string(b))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// ParseRights reads three positions, r or -, w or -, x or -: "r-x".
func ParseRights(s string) (Rights, error) {
	if len(s) != len(rightsNames) {
		return 0, fmt.Errorf("sandboxprofile: rights %q: want three letters such as %q", s, "r-x")
	}
	var r Rights
	for i, n := range rightsNames {
		switch s[i] {
		case n.letter:
			r |= n.right
		case '-':
		default:
			return 0, fmt.Errorf("sandboxprofile: rights %q: want %q or \"-\" at position %d", s, string(n.letter), i+1)
		}
	}
	return r, nil
}
