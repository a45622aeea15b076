package approval

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "git commit -m 'x' \\ <U+202E>\n", "git commit -m 'x' \\ <U+202E>\n"},
		{"other scripts", "naïve 日本語 🙂 שלום", "naïve 日本語 🙂 שלום"},
		{"ANSI", "ok\x1b[8m; rm -rf /", "ok<U+001B>[8m; rm -rf /"},
		{"C1 CSI", "a\u009b2J", "a<U+009B>2J"},
		{"carriage return", "rm -rf /\rls", "rm -rf /<U+000D>ls"},
		{"backspace, bell, NUL, delete", "a\b\a\x00\x7f", "a<U+0008><U+0007><U+0000><U+007F>"},
		{"bidirectional override", "safe\u202egpj.exe", "safe<U+202E>gpj.exe"},
		{"bidirectional isolate", "\u2066x\u2069", "<U+2066>x<U+2069>"},
		{"zero width", "r\u200bm\u200d\ufeff", "r<U+200B>m<U+200D><U+FEFF>"},
		{"soft hyphen", "r\u00adm", "r<U+00AD>m"},
		{"separators", "a\u2028b\u2029c\u0085", "a<U+2028>b<U+2029>c<U+0085>"},
		{"blanks that are no space", "a\u00a0b\u3000c\u2800", "a<U+00A0>b<U+3000>c<U+2800>"},
		{"what fonts draw nothing for", "make\ufffctest\U0001d159", "make<U+FFFC>test<U+1D159>"},
		{"a mark of another script", "run\U0001107f.sh ka\u17d2", "run<U+1107F>.sh ka<U+17D2>"},
		{"marks of their own script", "\u0915\u094d\u0937 \u0e01\u0e34 \u05e9\u05b8", "\u0915\u094d\u0937 \u0e01\u0e34 \u05e9\u05b8"},
		{"wider than their cells", "ok \ufdfd x\u2e3by \U0001242b \ua9c5 \u2014", "ok <U+FDFD> x<U+2E3B>y <U+1242B> <U+A9C5> \u2014"},
		{"fillers", "\u3164\u115f\uffa0", "<U+3164><U+115F><U+FFA0>"},
		{"tags", "a\U000e0041", "a<U+E0041>"},
		{"variation selectors", "a\ufe0f\U000e0100", "a<U+FE0F><U+E0100>"},
		{"private and unassigned", "\ue000\u0378", "<U+E000><U+0378>"},
		{"not UTF-8", "a\xff\xc3", "a<0xFF><0xC3>"},
		{"the replacement character itself", "\ufffd", "\ufffd"},
		{"tab", "\tgo", "→   go"},
		{"a few marks", "e\u0301", "e\u0301"},
		{"a tower of marks", "e" + strings.Repeat("\u0301", 6) + "x", "e" + strings.Repeat("\u0301", 4) + "<U+0301><U+0301>x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Escape(tt.in); got != tt.want {
				t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	if got := EscapeLine("one\ntwo"); got != "one<U+000A>two" {
		t.Errorf("EscapeLine: %q", got)
	}
}

func checkEscaped(t interface {
	Helper()
	Fatalf(string, ...any)
}, in string) {
	t.Helper()
	out := Escape(in)
	if !utf8.ValidString(out) {
		t.Fatalf("Escape(%q) is not UTF-8: %q", in, out)
	}
	for _, r := range out {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || unicode.IsSpace(r) && r != ' ') {
			t.Fatalf("Escape(%q) contains %U", in, r)
		}
	}
	if again := Escape(out); again != out {
		t.Fatalf("Escape is not idempotent: %q became %q, then %q", in, out, again)
	}
	if strings.Count(in, "\n") != strings.Count(out, "\n") {
		t.Fatalf("Escape(%q) changed the number of lines: %q", in, out)
	}
	if line := EscapeLine(in); strings.Contains(line, "\n") {
		t.Fatalf("EscapeLine(%q) has a line feed", in)
	}
}

func TestEscapeProperties(t *testing.T) {
	treacherous := rapid.SampledFrom([]rune("\n\t\r\x1b\u009b\u202e\u2066\u200b\ufeff\u00ad\u3164\u2800\u0301\ufe0f\U000e0041 aé日→<"))
	rapid.Check(t, func(t *rapid.T) {
		checkEscaped(t, rapid.String().Draw(t, "any"))
		checkEscaped(t, rapid.StringOf(treacherous).Draw(t, "treacherous"))
		checkEscaped(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "ls\x1b[2K\rrm", "a\u202eb", "\xff\xfe", "e\u0301\u0301\u0301\u0301\u0301\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) { checkEscaped(t, s) })
}

// Every assigned character, in blocks, with a letter between them so that no
// mark stands on another. Planes 4 to 13 are empty, 15 and 16 private.
func TestEscapeEveryCharacter(t *testing.T) {
	const block = 1 << 12
	for first := rune(0); first < 0xe1000; first += block {
		if first == 0x34000 {
			first = 0xe0000
		}
		var b strings.Builder
		for r := first; r < first+block; r++ {
			b.WriteRune(r) // a surrogate becomes U+FFFD
			b.WriteByte('a')
		}
		checkEscaped(t, b.String())
	}
}

func TestTruncate(t *testing.T) {
	for _, tt := range []struct {
		name         string
		content      string
		lines, bytes int
		shown        string
		hiddenLines  int
	}{
		{"fits", "a\nb\n", 2, 10, "a\nb\n", 0},
		{"fits exactly", "a\nb", 2, 3, "a\nb", 0},
		{"empty", "", 0, 0, "", 0},
		{"lines", "a\nb\nc\nd\n", 2, 100, "a\nb\n... 2 more lines, 4 bytes not shown", 2},
		{"one line", "a\nb\nc", 2, 100, "a\nb\n... 1 more bytes not shown", 1},
		{"bytes", "abcdef", 10, 4, "abcd\n... 2 more bytes not shown", 1},
		{"in the middle of a character", "aé", 10, 2, "a\n... 2 more bytes not shown", 1},
		{"only a line feed is left", "ab\n", 10, 2, "ab\n... 1 more bytes not shown", 1},
		{"nothing may be shown", "a\nb\n", 0, 100, "... 2 more lines, 4 bytes not shown", 2},
		{"less than nothing", "a", -1, -1, "... 1 more bytes not shown", 1},
		{"blank lines hide nothing", "a\n\n\n\nrm -rf /", 2, 100, "a\n\n... 3 more lines, 10 bytes not shown", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, metadata := Truncate(tt.content, tt.lines, tt.bytes)
			if shown != tt.shown {
				t.Errorf("shown %q, want %q", shown, tt.shown)
			}
			if tt.hiddenLines == 0 {
				if metadata != nil {
					t.Errorf("metadata %v though nothing was cut", metadata)
				}
				return
			}
			if metadata["full_content"] != tt.content || metadata["hidden_lines"] != tt.hiddenLines {
				t.Errorf("metadata %v, want the full text and %d lines", metadata, tt.hiddenLines)
			}
		})
	}
}

func TestTruncateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.StringOf(rapid.SampledFrom([]rune("ab\né日"))).Draw(t, "content")
		lines, bytes := rapid.IntRange(0, 6).Draw(t, "lines"), rapid.IntRange(0, 30).Draw(t, "bytes")
		shown, metadata := Truncate(content, lines, bytes)
		if metadata == nil {
			if shown != content {
				t.Fatalf("%q became %q and nothing says so", content, shown)
			}
			return
		}
		head := shown[:max(strings.LastIndex(shown, "..."), 0)]
		if len(head) > bytes+1 || strings.Count(head, "\n") > lines {
			t.Fatalf("shows %q of %q, more than %d lines or %d bytes", head, content, lines, bytes)
		}
		if kept := len(content) - metadata["hidden_bytes"].(int); !strings.HasPrefix(shown, strings.TrimSuffix(content[:kept], "\n")) {
			t.Fatalf("%q is no beginning of %q", shown, content)
		}
		if metadata["full_content"] != content {
			t.Fatal("the full text is gone")
		}
	})
}

func TestDescribeBinary(t *testing.T) {
	for _, tt := range []struct {
		name, data, want string
	}{
		{"PNG", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x00", 2284), "Binary file: image/png (2.3 KB)"},
		{"ELF", "\x7fELF\x02\x01\x01\x00", "Binary file: application/x-executable (8 bytes)"},
		{"NUL", "text\x00", "Binary file: application/octet-stream (5 bytes)"},
		{"noise", "\xfe\xfd\xfc", "Binary file: application/octet-stream (3 bytes)"},
		{"large", strings.Repeat("\x00", 999_999), "Binary file: application/octet-stream (1.0 MB)"},
		{"text", "#!/bin/sh\necho é\n", ""},
		{"text in Latin-1", "caf\xe9 au lait", ""},
		{"a script dressed as a picture", "GIF89a=1; rm -rf ~", ""},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, binary := DescribeBinary([]byte(tt.data))
			if got != tt.want || binary != (tt.want != "") {
				t.Errorf("%q, %v; want %q", got, binary, tt.want)
			}
		})
	}
}

func TestPresentationsAreSafe(t *testing.T) {
	long := strings.Repeat("line\u202e\n", 300)
	for _, tt := range []struct {
		name    string
		in      Presentation
		typ     PresentationType
		content string // a prefix
		full    string
	}{
		{"a command with NUL is no binary file", Presentation{Type: Command, Content: "ls\x00; rm"}, Command, "ls<U+0000>; rm", ""},
		{"a small binary file stays readable", Presentation{Type: FileContent, Content: "#!/bin/sh\nrm\n\x00"}, Text, "Binary file: application/octet-stream (14 bytes)", "#!/bin/sh\nrm\n<U+0000>"},
		{"long", Presentation{Type: Diff, Content: long}, Diff, "line<U+202E>\nline", Escape(long)},
		{"cut by the tool", Presentation{Type: Diff, Content: long, Metadata: map[string]any{"full_content": long + "\x1bmore"}}, Diff, "line<U+202E>\n", Escape(long + "\x1bmore")},
		{"no type", Presentation{Type: "html\n", Content: "x"}, Text, "x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := safePresentation(tt.in)
			if p.Type != tt.typ || !strings.HasPrefix(p.Content, tt.content) {
				t.Errorf("%s %.80q, want %s %q", p.Type, p.Content, tt.typ, tt.content)
			}
			if full, _ := p.Metadata["full_content"].(string); full != tt.full {
				t.Errorf("full_content is %.80q, want %.80q", full, tt.full)
			}
		})
	}
	p := safePresentation(Presentation{Content: "x", Language: "go\x1b", Metadata: map[string]any{"k\n": []any{"\u202e", 1}, "m": map[string]any{"\x1b": "\a"}}})
	if p.Language != "go<U+001B>" || p.Metadata["k<U+000A>"].([]any)[0] != "<U+202E>" || p.Metadata["m"].(map[string]any)["<U+001B>"] != "<U+0007>" {
		t.Errorf("%+v", p)
	}
}

// TestWhatLooksLikeAMarkIsSaid: a text that holds what stands elsewhere for what cannot be shown says so,
// whatever kind of text it is, and wherever it was cut. What is only escaped does not.
func TestWhatLooksLikeAMarkIsSaid(t *testing.T) {
	long := strings.Repeat("line\n", 300)
	for content, want := range map[string]string{
		"make <270 spaces> .git/config":                    "<270 spaces>",
		"cat <U+202E> x":                                   "<U+202E>",
		"cat <U+e0041> x":                                  "<U+e0041>",
		"cat <0xFF> x":                                     "<0xFF>",
		"cat <7 empty lines> x":                            "<7 empty lines>",
		"cat <7  more   characters> x":                     "<7  more   characters>",
		long + "sort <24 more characters> x":               "<24 more characters>",
		"cat \u202e x" + strings.Repeat(" ", 99) + "y\xff": "",
		"cat <270 >spaces; a<b>c <x>":                      "",
		"cat <<-E\n→   E":                                  "→   ",
		"cat <<-E\n\tE\necho → ok":                         "",
	} {
		for _, typ := range []PresentationType{Command, Diff, Structured, Text} {
			p := safePresentation(Presentation{Type: typ, Content: content, Metadata: map[string]any{Literal: "a tool's"}})
			if got, _ := p.Metadata[Literal].(string); got != want {
				t.Errorf("%s %.60q: %q", typ, content, got)
			}
		}
	}
	if p := safePresentation(Presentation{Content: "a", Metadata: map[string]any{"full_content": "a <2 spaces>"}}); p.Metadata[Literal] != "<2 spaces>" {
		t.Errorf("%+v", p)
	}
}
