package vtfilter

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"unicode/utf8"
)

func filter(pieces ...[]byte) string {
	var b bytes.Buffer
	w := New(&b)
	for _, p := range pieces {
		if n, err := w.Write(p); n != len(p) || err != nil {
			panic(fmt.Sprint(n, err))
		}
	}
	return b.String()
}

func TestWhatPasses(t *testing.T) {
	for _, s := range []string{
		"plain text\r\n\tand Grüße, 世界 🎉\n",
		"\x1b[1;31mred\x1b[0m \x1b[38;5;8mgrey\x1b[m \x1b[38;2;8;8;8mdark\x1b[39;49m \x1b[4:3mwave",
		"50 %\r\x1b[2K\x1b[1A\x1b[K100 %\b\b",
		"\x1b[?25lspinner\x1b[?25h\x1b7saved\x1b8\x1bM",
		"\x1b[10;20Hat\x1b[3J\x1b[2@\x1b[5X\x1b[s\x1b[u",
	} {
		if got := filter([]byte(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestWhatDoesNotPass(t *testing.T) {
	for name, s := range map[string]string{
		"the clipboard (OSC 52)":             "\x1b]52;c;ZXZpbA==\x07",
		"the clipboard, ended by ST":         "\x1b]52;c;ZXZpbA==\x1b\\",
		"the title":                          "\x1b]0;title\x07\x1b]2;title\x1b\\",
		"a link":                             "\x1b]8;;http://example.org\x1b\\",
		"a notification":                     "\x1b]9;hello\x07\x1b]777;notify;a;b\x07",
		"iTerm2's own":                       "\x1b]1337;File=name=x:AAAA\x07",
		"the title's report":                 "\x1b[21t",
		"size and place of the window":       "\x1b[8;1;1t\x1b[3;0;0t\x1b[18t",
		"device attributes":                  "\x1b[c\x1b[>c\x1b[=c\x1bZ",
		"the cursor's report":                "\x1b[6n\x1b[?6n\x1b[5n",
		"the version":                        "\x1b[>q\x1b[>0q",
		"a mode's report":                    "\x1b[?2026$p\x1b[4$p",
		"terminfo by DCS":                    "\x1bP+q544e\x1b\\",
		"settings by DCS":                    "\x1bP$qm\x1b\\",
		"sixel":                              "\x1bPq#0~~\x1b\\",
		"APC, PM and SOS":                    "\x1b_Gi=1;AAAA\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\",
		"the mouse":                          "\x1b[?1000h\x1b[?1002h\x1b[?1006h",
		"focus and paste":                    "\x1b[?1004h\x1b[?2004h",
		"the other screen":                   "\x1b[?1049h\x1b[?47h",
		"two modes at once":                  "\x1b[?25;1000h",
		"the keyboard":                       "\x1b[>4;2m\x1b[>1u\x1b[?u\x1b[=1;1u\x1b=\x1b>\x1b[4h\x1b[20h",
		"the printer":                        "\x1b[i\x1b[5i\x1b[?5i",
		"a reset":                            "\x1bc\x1b[!p",
		"the scrolling region":               "\x1b[2;3r\x1b[?6h",
		"other characters":                   "\x0e\x0f\x1b(0\x1b)0\x1bn\x1bo\x1b%G",
		"repetition":                         "\x1b[99999999b",
		"the answerback":                     "\x05",
		"NUL, DEL, CAN":                      "\x00\x7f\x18\x1a",
		"C1 as one byte":                     "\x9b6n\x90q\x9c\x9d0;t\x9c",
		"concealed text":                     "\x1b[8m\x1b[1;8m\x1b[38;5;1;8m",
		"a function key":                     "\x1bP1|17/6c73\x1b\\",
		"a colour's report":                  "\x1b]10;?\x07\x1b]4;1;?\x1b\\",
		"the directory":                      "\x1b]7;file://host/\x07",
		"a checksum":                         "\x1b[1;1;1;1;1;1*y",
		"left open":                          "\x1b]52;c;AAAA",
		"a sequence with a control in it":    "\x1b[6\x00n",
		"a sequence broken off by another":   "\x1b[6\x1b[6n",
		"a sequence with a space before 'q'": "\x1b[5 q",
	} {
		if got := filter([]byte(s)); got != "" {
			t.Errorf("%s: %q lets %q through", name, s, got)
		}
	}
}

// TestTextAfterWhatIsDropped: only the sequence goes.
func TestTextAfterWhatIsDropped(t *testing.T) {
	for s, want := range map[string]string{
		"a\x1b]52;c;QQ==\x07b": "ab",
		"a\x1b]0;x\x1b\\b\n":   "ab\n",
		"a\x1b[6nb\x1b[31mc":   "ab\x1b[31mc",
		"a\u009b6nb":           "a6nb", // a control that was encoded as a character
		"a\xffb\xc3(c":         "ab\ufffdc",
	} {
		if got := filter([]byte(s)); got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
}

func TestCloseUndoes(t *testing.T) {
	for s, want := range map[string]string{
		"text":                     "",
		"\x1b[31mred":              "\x1b[m",
		"\x1b[?25lx":               "\x1b[?25h",
		"\x1b[?25lx\x1b[?25h":      "",
		"\x1b[1m\x1b[?25l\x1b]0;x": "\x1b[m\x1b[?25h",
	} {
		var b bytes.Buffer
		w := New(&b)
		w.Write([]byte(s))
		b.Reset()
		if err := w.Close(); err != nil || b.String() != want {
			t.Errorf("after %q: %q, %v; want %q", s, b.String(), err, want)
		}
		b.Reset()
		w.Write([]byte("next"))
		if b.String() != "next" {
			t.Errorf("after %q and Close: %q", s, b.String())
		}
	}
}

// harmless is all that may come out, written down a second time.
var harmless = regexp.MustCompile(`^(?:[^\x00-\x1f\x7f-\x{9f}]|[\n\r\t\x08\v\f\a]|\x1b[78DEM]|\x1b\[[0-9;:]*[A-IZadef` + "`" + `JKLMPX@STsum]|\x1b\[\?25[hl])*$`)

func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"text", "\x1b[1;31mred\x1b[0m", "\x1b]52;c;QQ==\x07", "\x1b]0;t\x1b\\x", "\x1bP+q54\x1b\\", "\x1b[?1000h\x1b[6n", "\u009b6n", "\x9b6n",
		"\xc3\x1b[6n", "\xf0\x9f\x1b]52;c;x\x07", "\x1b\x1b[6n", "\x1b[\x1b]0;x\x07", "\x1b[38:2::1:2:3m", "\x1bP\x1bP\x9c\x1b[c", "\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30;31;32;33;34;35m",
	} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		out := filter(b)
		if !utf8.ValidString(out) || !harmless.MatchString(out) {
			t.Fatalf("%q lets %q through", b, out)
		}
		if again := filter([]byte(out)); again != out {
			t.Errorf("%q becomes %q, and that %q", b, out, again)
		}
		at = max(0, min(at, len(b)))
		if parts := filter(b[:at], b[at:]); parts != out {
			t.Errorf("%q: in two pieces %q, in one %q", b, parts, out)
		}
	})
}

func screen(s string) (shown, end string) {
	var b bytes.Buffer
	w := NewScreen(&b)
	w.Write([]byte(s))
	shown = b.String()
	b.Reset()
	w.Close()
	return shown, b.String()
}

// TestScreens: what editors and pagers are made of passes on a screen that they have for
// themselves, and is undone.
func TestScreens(t *testing.T) {
	for s, want := range map[string]string{
		"\x1b[?1049h\x1b[2J\x1b[?1h\x1b=": "\x1b>\x1b[?1l\x1b[?1049l",
		"\x1b[?1049h\x1b[?1049l":          "",
		"\x1b[?1000;1006h\x1b[?2004h":     "\x1b[?1000l\x1b[?1006l\x1b[?2004l",
		"\x1b[2;20r\x1b[4h":               "\x1b[4l\x1b7\x1b[r\x1b8",
		"\x1b(0lqk\x1b(B\x0ex\x0f":        "\x1b(B\x1b)B\x0f",
		"\x1b[5 q\x1b[?7l":                "\x1b[0 q\x1b[?7h",
		"x\x1b[20b\x1bH\x1b[3g":           "",
	} {
		if shown, end := screen(s); shown != s || end != want {
			t.Errorf("%q became %q and %q, want %q", s, shown, end, want)
		}
	}
	for _, s := range []string{
		"\x1b]52;c;QQ==\x07", "\x1b]0;title\x07", "\x1b]8;;http://example.org\x1b\\", "\x1b[6n", "\x1b[c\x1b[>c", "\x1b[21t", "\x1b[>q", "\x1b[?2026$p",
		"\x1bP+q544e\x1b\\", "\x05", "\x1bc", "\x1b[!p", "\x1b[5i", "\x1b[20h", "\x1b[?1049;9001h", "\x1b[?u\x1b[>1u", "\x1b%G", "\x1b[8m", "\x1b[?1;2r",
	} {
		if shown, end := screen(s); shown != "" || end != "" {
			t.Errorf("%q became %q and %q", s, shown, end)
		}
	}
}
