package present

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is the program of a screen.
func source(t *testing.T, pattern string) (text string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			for line := range strings.SplitSeq(string(b), "\n") {
				if !strings.HasPrefix(strings.TrimSpace(line), "//") {
					text += line + "\n"
				}
			}
		}
	}
	return text
}

// TestScreensHaveOneTableOfWords: each text of the table is on both screens, or on one and in the plain prompt; the page asks
// for none that there is not; and what a screen says in more than three words of its own is listed, so that it is
// looked at whether another screen says that too.
func TestScreensHaveOneTableOfWords(t *testing.T) {
	tui, page, plain := source(t, "../tui/*.go"), source(t, "../web/assets/*.js"), source(t, "../../cmd/sandgate/internal/approve/*.go")
	var table map[string]string
	b, err := json.Marshal(Words)
	if err == nil {
		err = json.Unmarshal(b, &table)
	}
	if err != nil || len(table) < 20 {
		t.Fatal(table, err)
	}
	for name, text := range table {
		field := ""
		for part := range strings.SplitSeq(name, "_") {
			field += strings.ToUpper(part[:1]) + part[1:]
		}
		on := 0
		for _, used := range []bool{strings.Contains(tui, "Words."+field), strings.Contains(page, "texts."+name) || strings.Contains(page, `said("`+name+`"`), strings.Contains(plain, "Words."+field)} {
			if used {
				on++
			}
		}
		if on < 2 || text == "" {
			t.Errorf("%s, %q, is on %d screens", name, text, on)
		}
	}
	for _, used := range regexp.MustCompile(`\btexts\.(\w+)|\bsaid\("(\w+)"`).FindAllStringSubmatch(page, -1) {
		if name := used[1] + used[2]; table[name] == "" {
			t.Errorf("the page says %q, and nobody knows what that is", name)
		}
	}

	known, err := os.ReadFile("testdata/own_words.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSpace(string(known)), "\n")
	var own []string
	words := regexp.MustCompile(`[A-Za-z']{2,}( [A-Za-z',:;]+){3,}`)
	for screen, text := range map[string]string{"screen": tui, "page": page} {
		for _, literal := range regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`\n]*`").FindAllString(text, -1) {
			if s := words.FindString(literal); s != "" && !strings.Contains(literal, "data-") {
				own = append(own, screen+": "+strings.Trim(literal, "\"`"))
			}
		}
	}
	slices.Sort(own)
	own = slices.Compact(own)
	for _, one := range own {
		if !slices.Contains(listed, one) {
			t.Errorf("a text that is not in testdata/own_words.txt: does another screen say this too? Then it belongs in Words.\n%s", one)
		}
	}
	for _, one := range listed {
		if !slices.Contains(own, one) {
			t.Errorf("no screen says this any more: %s", one)
		}
	}
}
