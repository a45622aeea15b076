package fileops_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/confine/fileops"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func never() bool { return false }

// run searches root; change adjusts what is asked for.
func run(t testing.TB, kind sandboxprofile.Kind, root string, change func(*sandboxprofile.Operation, *sandboxprofile.Search)) sandboxprofile.Findings {
	t.Helper()
	op := sandboxprofile.Operation{Path: root, MaxBytes: 1 << 20, Search: &sandboxprofile.Search{
		Root: root, Limit: 1000, Within: time.Minute,
	}}
	if change != nil {
		change(&op, op.Search)
	}
	found, err := fileops.Run(disk{}, kind, op, never)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func glob(t testing.TB, root, pattern string) []string {
	return names(run(t, sandboxprofile.GlobFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Glob = pattern }))
}

func names(f sandboxprofile.Findings) []string {
	var all []string
	for _, e := range f.Entries {
		all = append(all, e.Path)
	}
	return all
}

// lines writes findings as grep does.
func lines(f sandboxprofile.Findings) string {
	var out strings.Builder
	for _, l := range f.Lines {
		mark := ":"
		if l.Context {
			mark = "-"
		}
		fmt.Fprintf(&out, "%s%s%d%s%s\n", l.Path, mark, l.Number, mark, l.Text)
	}
	return out.String()
}

func TestListFiles(t *testing.T) {
	root := tree(t, map[string]string{
		"a.txt": "four", "b/c.txt": "", "b/d/e.txt": "", ".gitignore": "/out\n*.log\n", "out/o": "", "x.log": "", ".git/HEAD": "", ".hidden/h": "",
	})
	if err := os.Symlink("b", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[int64]string{
		1: ".git .gitignore .hidden a.txt b link out x.log",
		2: ".git .gitignore .hidden .hidden/h a.txt b b/c.txt b/d link out x.log",
		0: ".git .gitignore .hidden .hidden/h a.txt b b/c.txt b/d b/d/e.txt link out x.log",
	} {
		f := run(t, sandboxprofile.ListFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Depth = depth })
		if got := strings.Join(names(f), " "); got != want {
			t.Errorf("depth %d: %s, want %s", depth, got, want)
		}
	}
	f := run(t, sandboxprofile.ListFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Depth, s.Prefix = 1, "p/" })
	if e := f.Entries[3]; e != (sandboxprofile.Entry{Path: "p/a.txt", Type: "file", Size: 4}) {
		t.Errorf("a file is %+v", e)
	}
	if e := f.Entries[5]; e.Path != "p/link" || e.Type != "symlink" {
		t.Errorf("a link is %+v", e)
	}
}

func TestGlob(t *testing.T) {
	root := tree(t, map[string]string{
		"main.go": "", "README.md": "", "src/a.go": "", "src/a_test.go": "", "src/deep/er/b.go": "", "src/x.ts": "", "src/y.tsx": "",
		".github/w.yml": "", ".git/config": "", ".gitignore": "gen\n", "gen/z.go": "", "[a].go": "",
	})
	for pattern, want := range map[string]string{
		"*.go":                "[a].go main.go",
		"**/*.go":             "[a].go main.go src/a.go src/a_test.go src/deep/er/b.go",
		"src/*.go":            "src/a.go src/a_test.go",
		"src/**":              "src/a.go src/a_test.go src/deep/er/b.go src/x.ts src/y.tsx",
		"src/**/*.go":         "src/a.go src/a_test.go src/deep/er/b.go",
		"**/er/*":             "src/deep/er/b.go",
		"src/*.{ts,tsx}":      "src/x.ts src/y.tsx",
		"{src,.github}/?.y*l": ".github/w.yml",
		"**/[!ab]*.ts*":       "src/x.ts src/y.tsx",
		`\[a\].go`:            "[a].go",
		"./main.go":           "main.go",
		"gen/*.go":            "",
		".git/*":              "",
		"nothing":             "",
	} {
		if got := strings.Join(glob(t, root, pattern), " "); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	f := run(t, sandboxprofile.GlobFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Glob, s.Ignored = "gen/*", true })
	if got := fmt.Sprint(names(f)); got != "[gen/z.go]" {
		t.Errorf("with what is ignored: %s", got)
	}
}

func TestGrep(t *testing.T) {
	root := tree(t, map[string]string{
		"a.txt": "one\ntwo needle\nthree\nfour\nfive\nsix needle\nseven needle\n", "b/b.go": "Needle", "b/c.md": "a needle", "bin": "needle\x00\n",
		"crlf": "x\r\nneedle\r\n", "empty.late": "\nlate",
	})
	for _, c := range []struct {
		name   string
		change func(*sandboxprofile.Search)
		want   string
	}{
		{"plain", func(s *sandboxprofile.Search) {}, "a.txt:2:two needle\na.txt:6:six needle\na.txt:7:seven needle\nb/c.md:1:a needle\ncrlf:2:needle\n"},
		{"case", func(s *sandboxprofile.Search) { s.Pattern = "(?i:needle)"; s.Glob = "*.go" }, "b/b.go:1:Needle\n"},
		{"negated glob", func(s *sandboxprofile.Search) { s.Glob = "!*.txt" }, "b/c.md:1:a needle\ncrlf:2:needle\n"},
		{"glob with a slash", func(s *sandboxprofile.Search) { s.Glob = "b/*" }, "b/c.md:1:a needle\n"},
		{"context", func(s *sandboxprofile.Search) { s.Glob, s.Before, s.After = "*.txt", 1, 1 },
			"a.txt-1-one\na.txt:2:two needle\na.txt-3-three\na.txt-5-five\na.txt:6:six needle\na.txt:7:seven needle\n"},
		{"an empty line before", func(s *sandboxprofile.Search) { s.Pattern, s.Glob, s.Before = "^late", "*.late", 2 }, "empty.late-1-\nempty.late:2:late\n"},
		{"anchors", func(s *sandboxprofile.Search) { s.Pattern = "^needle" }, "crlf:2:needle\n"},
		{"ends of the text are a line's", func(s *sandboxprofile.Search) { s.Pattern = `\Aa needle\z` }, "b/c.md:1:a needle\n"},
		{"empty lines are none", func(s *sandboxprofile.Search) { s.Pattern, s.Glob = `^$`, "!*.late" }, ""},
		{"files", func(s *sandboxprofile.Search) { s.FilesOnly = true }, "a.txt:0:\nb/c.md:0:\ncrlf:0:\n"},
		{"suffixes", func(s *sandboxprofile.Search) { s.Suffixes = []string{".md"} }, "b/c.md:1:a needle\n"},
		{"limit", func(s *sandboxprofile.Search) { s.Limit = 2 }, "a.txt:2:two needle\na.txt:6:six needle\n"},
		{"excluded", func(s *sandboxprofile.Search) { s.Exclude = []string{root + "/b"}; s.Glob = "*.md" }, ""},
		{"hidden", func(s *sandboxprofile.Search) { s.Hide = []string{"b"}; s.Glob = "*.md" }, ""},
	} {
		f := run(t, sandboxprofile.GrepFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) {
			s.Pattern = "needle"
			c.change(s)
		})
		if got := lines(f); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
	f := run(t, sandboxprofile.GrepFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) {
		s.Pattern, s.Exclude = "needle", []string{root + "/b"}
	})
	if want := []sandboxprofile.Skipped{{Path: "b", Reason: "has rules of its own; name it as the path"}}; !slices.Equal(f.Skipped, want) || f.Binary != 1 {
		t.Errorf("skipped %+v and %d binary files", f.Skipped, f.Binary)
	}
	f = run(t, sandboxprofile.GrepFiles, root+"/b/c.md", func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) {
		s.Pattern, s.Root, s.Prefix = "needle", root, "b/c.md/"
	})
	if got := lines(f); got != "b/c.md:1:a needle\n" {
		t.Errorf("one file: %q", got)
	}
}

// TestSearchesAreBounded: each bound ends a search, and is told.
func TestSearchesAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("f%02d", i)] = "needle\n"
	}
	root := tree(t, files)
	for _, c := range []struct {
		name   string
		change func(*sandboxprofile.Operation, *sandboxprofile.Search)
		stop   func() bool
		want   sandboxprofile.Stopped
		count  int
	}{
		{"no bound is reached", func(*sandboxprofile.Operation, *sandboxprofile.Search) {}, never, "", 50},
		{"exactly the limit", func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Limit = 50 }, never, "", 50},
		{"limit", func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Limit = 7 }, never, sandboxprofile.StoppedAtLimit, 7},
		{"bytes", func(o *sandboxprofile.Operation, _ *sandboxprofile.Search) { o.MaxBytes = 500 }, never, sandboxprofile.StoppedAtBytes, 12},
		{"time", func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Within = 0 }, never, sandboxprofile.StoppedAtTime, 0},
		{"cancelled", func(*sandboxprofile.Operation, *sandboxprofile.Search) {}, func() bool { return true }, sandboxprofile.StoppedByCall, 0},
	} {
		op := sandboxprofile.Operation{Path: root, MaxBytes: 1 << 20, Search: &sandboxprofile.Search{
			Root: root, Limit: 1000, Within: time.Minute, Pattern: "needle",
		}}
		c.change(&op, op.Search)
		f, err := fileops.Run(disk{}, sandboxprofile.GrepFiles, op, c.stop)
		if err != nil || f.Stopped != c.want || len(f.Lines) != c.count {
			t.Errorf("%s: stopped by %q with %d lines, %v", c.name, f.Stopped, len(f.Lines), err)
		}
	}
}

// TestLongLines: a line is shown around its match, and searched as far as is told.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("é", 300<<10) // 600 KiB
	root := tree(t, map[string]string{
		"middle": "start\n" + long + "needle" + long[:1000] + "\nneedle behind\n",
		"far":    long + long + "needle\nneedle behind\n",
	})
	f := run(t, sandboxprofile.GrepFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Pattern = "needle" })
	if len(f.Lines) != 3 || f.Lines[0].Path != "far" || f.Lines[0].Number != 2 || f.Lines[1].Number != 2 || f.Lines[2].Number != 3 {
		t.Fatalf("%d lines, %+v", len(f.Lines), f.Skipped)
	}
	if text := f.Lines[1].Text; len(text) > 520 || !strings.Contains(text, "éneedleé") || !strings.HasPrefix(text, "[...]é") || !strings.HasSuffix(text, "é[...]") {
		t.Errorf("shown as %q", text)
	}
	if len(f.Skipped) != 1 || f.Skipped[0].Path != "far" || !strings.Contains(f.Skipped[0].Reason, "1048576 bytes") {
		t.Errorf("skipped %+v", f.Skipped)
	}
}

func TestDeepTreesEnd(t *testing.T) {
	root := tree(t, map[string]string{strings.Repeat("d/", 140) + "f": "needle"})
	f := run(t, sandboxprofile.GlobFiles, root, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Glob = "**" })
	if len(f.Entries) != 0 || len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0].Reason, "too deep") {
		t.Errorf("%+v", f)
	}
	below := root + "/" + strings.TrimSuffix(strings.Repeat("d/", 100), "/")
	f = run(t, sandboxprofile.GlobFiles, below, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Glob = "**" })
	if len(f.Entries) != 1 {
		t.Errorf("from further below: %+v", f)
	}
}

// TestGrepAgreesWithMatchingEachLine holds the search by blocks against the
// obvious one, over files of many blocks.
func TestGrepAgreesWithMatchingEachLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.StringMatching(`[abx \n]{0,40}`).Draw(rt, "unit")
		text := strings.Repeat(unit, rapid.IntRange(1, 20_000).Draw(rt, "times")) + rapid.StringMatching(`[abx\n]{0,9}`).Draw(rt, "tail")
		pattern := rapid.SampledFrom([]string{"a", "^a", "b$", `a\s*b`, "[^x]x", `\bab\b`, "(?-m:^)ab", `(a|b)x\z`, "x*"}).Draw(rt, "pattern")
		root := tree(t, map[string]string{"f": text})
		var want strings.Builder
		re := regexp.MustCompile(pattern)
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if text != "" && len(line) <= 500 && re.MatchString(line) && i < 3000 {
				fmt.Fprintf(&want, "f:%d:%s\n", i+1, line)
			}
		}
		f := run(t, sandboxprofile.GrepFiles, root, func(o *sandboxprofile.Operation, s *sandboxprofile.Search) {
			s.Pattern, s.Limit, o.MaxBytes = pattern, 1<<40, 1<<40
		})
		f.Lines = slices.DeleteFunc(f.Lines, func(l sandboxprofile.Line) bool { return l.Number > 3000 || len(l.Text) > 500 })
		if got := lines(f); got != want.String() {
			rt.Fatalf("%q in %d bytes of %q:\n%.300s\nwant\n%.300s", pattern, len(text), unit, got, want.String())
		}
	})
}

// TestIgnoreAgreesWithGit holds the rules of .gitignore files against git's own.
func TestIgnoreAgreesWithGit(t *testing.T) {
	git := compared(t, "git")
	name := rapid.SampledFrom([]string{"a", "b", "ab", "a.o", "foo", ".x"})
	dirs := rapid.SampledFrom([]string{"", "d/", "d/e/", "a/", "a/b/", "foo/"})
	line := rapid.Custom(func(t *rapid.T) string {
		parts := []string{"", "!", "/", "!/"}
		body := []string{"a", "b", "*", "*.o", "a*", "?b", "[ab]", "[!a]", "d", "d/e", "a/b", "**", "**/a", "d/**", "a/**/b", "foo", "**/foo/*", "d/*", `\a`, "a ", `a\ `, "#a", ""}
		return rapid.SampledFrom(parts).Draw(t, "lead") + rapid.SampledFrom(body).Draw(t, "body") + rapid.SampledFrom([]string{"", "/", "\r", " "}).Draw(t, "end")
	})
	rapid.Check(t, func(rt *rapid.T) {
		files := map[string]string{}
		for range rapid.IntRange(1, 12).Draw(rt, "n") {
			files["w/"+dirs.Draw(rt, "dir")+name.Draw(rt, "name")+"_"] = ""
			files["w/"+dirs.Draw(rt, "dir")+name.Draw(rt, "name")+"/f"] = ""
		}
		for range rapid.IntRange(1, 3).Draw(rt, "ignores") {
			files["w/"+dirs.Draw(rt, "where")+".gitignore"] = strings.Join(rapid.SliceOfN(line, 0, 5).Draw(rt, "lines"), "\n")
		}
		root := tree(t, files) + "/w"
		want := gitFiles(t, git, root)
		if got := glob(t, root, "**"); !slices.Equal(got, want) {
			rt.Fatalf("with %q:\ngot  %q\nwant %q", files, got, want)
		}
	})
}

// gitFiles lists what git does not ignore.
func gitFiles(t testing.TB, git, root string) []string {
	t.Helper()
	command := func(args ...string) string {
		cmd := exec.Command(git, append([]string{"-C", root, "-c", "core.excludesFile=/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	command("init", "-q")
	list := strings.Split(strings.TrimSuffix(command("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.SortFunc(list, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return list
}

func TestIgnore(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		at    string // where the search begins
		want  string
	}{
		{"a name at any depth", map[string]string{".gitignore": "*.log\n", "a.log": "", "d/b.log": "", "d/c": ""}, "", ".gitignore d/c"},
		{"from the top only", map[string]string{".gitignore": "/out\nd/x\n", "out": "", "d/out": "", "d/x": "", "e/d/x": ""}, "", ".gitignore d/out e/d/x"},
		{"directories only", map[string]string{".gitignore": "build/\n", "build": "", "d/build/f": ""}, "", ".gitignore build"},
		{"negation", map[string]string{".gitignore": "*.log\n!keep.log\n", "a.log": "", "keep.log": ""}, "", ".gitignore keep.log"},
		{"not below what is left out", map[string]string{".gitignore": "d/\n!d/keep\n", "d/keep": ""}, "", ".gitignore"},
		{"the nearest file decides", map[string]string{".gitignore": "*.log\n", "d/.gitignore": "!*.log\n", "a.log": "", "d/a.log": ""}, "", ".gitignore d/.gitignore d/a.log"},
		{"files above the start count", map[string]string{".gitignore": "*.log\n/d/e/x\n", "d/e/a.log": "", "d/e/x": "", "d/e/y": ""}, "/d/e", "y"},
		{"the top of a repository starts anew", map[string]string{".gitignore": "*.log\n", "sub/.git/HEAD": "", "sub/a.log": ""}, "", ".gitignore sub/a.log"},
		{"a worktree is a top too", map[string]string{".gitignore": "*.log\n", "sub/.git": "gitdir: x", "sub/a.log": ""}, "/sub", ".git a.log"},
		{"info/exclude", map[string]string{".git/info/exclude": "*.log\n*.o\n", ".gitignore": "!b.log\n", "a.log": "", "b.log": "", "x.o": ""}, "", ".gitignore b.log"},
		{"what is named is searched", map[string]string{".gitignore": "node_modules/\n", "node_modules/m/i.js": ""}, "/node_modules", "m/i.js"},
		{"comments, escapes, line ends", map[string]string{".gitignore": "#a\n\\#b\n\\!c\nd \\ne\r\nf   \n", "#a": "", "#b": "", "!c": "", "e": "", "f": ""}, "", "#a .gitignore e"},
	} {
		root := tree(t, c.files)
		f := run(t, sandboxprofile.GlobFiles, root+c.at, func(_ *sandboxprofile.Operation, s *sandboxprofile.Search) { s.Root, s.Glob = root, "**" })
		if got := strings.Join(names(f), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestGrepAgreesWithRipgrep holds searches of random trees against ripgrep's: which
// files are searched, which lines match, and which are shown beside them.
func TestGrepAgreesWithRipgrep(t *testing.T) {
	rg := compared(t, "rg")
	rapid.Check(t, func(rt *rapid.T) {
		root, ignores := textTree(rt, t)
		pattern := rapid.SampledFrom([]string{"needle", "^a", "b$", "a|b", "[ab]+x?", `\bab\b`, "(?i:AB)", "x*", "é", "^$", `\s`}).Draw(rt, "pattern")
		context := rapid.Int64Range(0, 3).Draw(rt, "context")
		args := []string{"--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-dot", "--no-heading",
			"--color=never", "--with-filename", "--line-number", fmt.Sprintf("--context=%d", context), "--context-separator="}
		name := ""
		if !ignores { // in ripgrep a glob on the command line overrides them
			name = rapid.SampledFrom([]string{"", "*.txt", "!*.txt", "*.{md,txt}", "d/*", "**/e/*", "!d/**"}).Draw(rt, "glob")
		}
		if name != "" {
			args = append(args, "--glob="+name)
		}
		f := run(t, sandboxprofile.GrepFiles, root, func(o *sandboxprofile.Operation, s *sandboxprofile.Search) {
			s.Pattern, s.Before, s.After, s.Glob, s.Limit, o.MaxBytes = pattern, context, context, name, 1<<30, 1<<30
		})
		got, want := byFile(lines(f)), byFile(output(t, root, rg, append(args, "--regexp="+pattern, ".")...))
		if !maps.Equal(got, want) {
			rt.Fatalf("%q, context %d, glob %q:\ngot  %q\nwant %q", pattern, context, name, got, want)
		}
	})
}

// TestGlobAgreesWithRipgrep holds the files that are looked at against ripgrep's.
func TestGlobAgreesWithRipgrep(t *testing.T) {
	rg := compared(t, "rg")
	rapid.Check(t, func(rt *rapid.T) {
		root, _ := textTree(rt, t)
		list := strings.Split(output(t, root, rg, "--no-config", "--files", "--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-dot", "--null", "."), "\x00")
		var want []string
		for _, name := range list[:len(list)-1] {
			want = append(want, strings.TrimPrefix(name, "./"))
		}
		got := glob(t, root, "**")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			rt.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}

// textTree makes a random tree of texts, with a file of zero bytes in it, and
// reports whether it has rules of what to ignore.
func textTree(rt *rapid.T, t testing.TB) (root string, ignores bool) {
	line := rapid.SampledFrom([]string{"", "a", "ab", "needle", "a needle b", "x", "é", "\tb", "Ab.", "axb ", "--", "a:1:b"})
	where := rapid.SampledFrom([]string{"", "d/", "d/e/", ".h/", "f/"})
	name := rapid.SampledFrom([]string{"a.txt", "b.txt", "c.md", ".x", "g"})
	files := map[string]string{"bin": "needle\x00\n"}
	for range rapid.IntRange(1, 8).Draw(rt, "files") {
		text := strings.Join(rapid.SliceOfN(line, 0, 12).Draw(rt, "lines"), "\n")
		if rapid.Bool().Draw(rt, "ends with a line feed") && text != "" {
			text += "\n"
		}
		files[where.Draw(rt, "dir")+name.Draw(rt, "name")] = text
	}
	if ignores = rapid.Bool().Draw(rt, "ignores"); ignores {
		rules := rapid.SliceOfN(rapid.SampledFrom([]string{"*.txt", "!b.txt", "/d", "e/", "d/e/*", ".x", "**/g", "!/g"}), 1, 4)
		files[where.Draw(rt, "ignore in")+".gitignore"] = strings.Join(rules.Draw(rt, "rules"), "\n") + "\n"
	}
	return tree(t, files), ignores
}

// byFile groups lines that begin with a path: in which order files are searched is
// not compared, and neither are the lines between groups.
func byFile(text string) map[string]string {
	files := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(line, "./")
		if at := strings.IndexAny(line, ":-"); at > 0 {
			files[line[:at]] += line
		}
	}
	return files
}

// compared finds a program to compare with. A machine that tests for everybody has it.
func compared(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not installed: scripts/bootstrap installs it", name)
	default:
		t.Skipf("needs %s to compare with: scripts/bootstrap installs it", name)
	}
	return ""
}

// output runs a program in dir. Status 1 is that of a search that finds nothing.
func output(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return string(out)
}
