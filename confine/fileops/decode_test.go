package fileops_test

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/confine/fileops"
)

func decode(t testing.TB, text, encoding string) string {
	t.Helper()
	r, err := fileops.Decode(strings.NewReader(text), encoding)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(iotest.OneByteReader(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ encoding, file, want string }{
		{"", "a\xff", "a\xff"},
		{"utf-8", "é", "é"},
		{"latin-1", "caf\xe9\n\x00", "café\n\x00"},
		{"utf-16", "\xff\xfea\x00\n\x00", "a\n"},
		{"utf-16", "\xfe\xff\x00a\x00\n", "a\n"},
		{"utf-16", "a\x00b\x00", "ab"},
		{"utf-16", "", ""},
		{"utf-16", "\xff\xfe", ""},
		{"utf-16", "a\x00b", "a\uFFFD"},
		{"utf-16", "\x3d\xd8\x00\xdea\x00", "😀a"},
		{"utf-16", "\x3d\xd8a\x00", "\uFFFDa"},
		{"utf-16", "\x3d\xd8", "\uFFFD"},
	} {
		if got := decode(t, c.file, c.encoding); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.encoding, c.file, got, c.want)
		}
	}
	if _, err := fileops.Decode(strings.NewReader(""), "ebcdic"); !errors.Is(err, fileops.ErrEncoding) {
		t.Errorf("ebcdic: %v", err)
	}
	broken := errors.New("broken")
	r, _ := fileops.Decode(io.MultiReader(strings.NewReader("a"), iotest.ErrReader(broken)), "latin-1")
	if got, err := io.ReadAll(r); string(got) != "a" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDecodeUndoesEncoding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Filter(utf8.ValidString).Draw(rt, "text")
		order := binary.ByteOrder(binary.LittleEndian)
		if rapid.Bool().Draw(rt, "big") {
			order = binary.BigEndian
		}
		var file []byte
		for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
			file = append(file, 0, 0)
			order.PutUint16(file[len(file)-2:], unit)
		}
		if got := decode(t, string(file), "utf-16"); got != text {
			rt.Fatalf("%q, want %q", got, text)
		}
	})
}

// FuzzGitignore: whatever a .gitignore file holds, a search of the tree beside it
// ends, and gives no file twice.
func FuzzGitignore(f *testing.F) {
	for _, seed := range []string{"*.log\n!a.log", "/d/\n#x\n\\#y", "**/a/**", "[", "a/**/b\r\n", "!\n/\n//\n", "\\", "[!a]*", " \n  x  "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root := tree(t, map[string]string{".gitignore": text, "a": "", "d/a.log": "", "d/e/b": ""})
		found := glob(t, root, "**")
		seen := map[string]bool{}
		for _, name := range found {
			if seen[name] {
				t.Errorf("%q twice in %q", name, found)
			}
			seen[name] = true
		}
	})
}
