package confinetest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// base is the state of a file to be edited that a plan records.
func base(t *testing.T, path string) *sandboxprofile.Base {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return &sandboxprofile.Base{
		Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size,
		ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: uint32(st.Mode),
	}
}

// edit replaces old by new in a file that is as it is now.
func edit(t *testing.T, path, old, new string) sandboxprofile.Operation {
	t.Helper()
	return sandboxprofile.Operation{
		Path: path, Base: base(t, path), MaxBytes: 1 << 20, Edits: []sandboxprofile.Edit{{Old: old, New: new}},
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func edits(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p, file := Profile(t, ws), ws+"/file"
	write(t, file, "one two two\n")
	if err := os.Chmod(file, 0o751); err != nil {
		t.Fatal(err)
	}
	r := fileAction(t, c, p, sandboxprofile.EditFile, edit(t, file, "one", "1"))
	if r.Errno != "" || r.File.Replaced != 1 || content(t, file) != "1 two two\n" {
		t.Errorf("edit: %+v %+v, left %q", r, r.File, content(t, file))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("the mode after an edit: %v, %v", info.Mode(), err)
	}
	op := edit(t, file, "1", "one")
	op.Edits = append(op.Edits, sandboxprofile.Edit{Old: "two", New: "2"})
	r = fileAction(t, c, p, sandboxprofile.EditFile, op)
	if r.Errno != "EINVAL" || r.File.Edit == nil || r.File.Edit.Edit != 2 || r.File.Edit.Found != 2 {
		t.Errorf("an edit of which one part does not match: %+v %+v", r, r.File.Edit)
	}
	if got := content(t, file); got != "1 two two\n" {
		t.Errorf("it left %q", got)
	}
	if entries, _ := os.ReadDir(ws); len(entries) != 1 {
		t.Errorf("litter: %v", entries)
	}
	p.Paths[ws] = sandboxprofile.Read
	r = fileAction(t, c, p, sandboxprofile.EditFile, edit(t, file, "1", "one"))
	if r.Errno != "EROFS" && r.Errno != "EACCES" || content(t, file) != "1 two two\n" {
		t.Errorf("on a read-only disk: %+v, left %q", r, content(t, file))
	}
}

// editDrift changes the file in each way after it was planned to edit it.
func editDrift(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p, file := Profile(t, ws), ws+"/file"
	rewrite := func() { write(t, file, "ONE\n") }
	for name, change := range map[string]func(*sandboxprofile.Operation){
		"same size and times": func(*sandboxprofile.Operation) {
			info, _ := os.Stat(file)
			rewrite()
			if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
		"another file": func(*sandboxprofile.Operation) {
			write(t, ws+"/other", "one\n")
			if err := os.Rename(ws+"/other", file); err != nil {
				t.Fatal(err)
			}
		},
		"mode":            func(*sandboxprofile.Operation) { _ = os.Chmod(file, 0o600) },
		"nothing planned": func(o *sandboxprofile.Operation) { o.Base = nil },
		"another digest":  func(o *sandboxprofile.Operation) { o.SHA256 = strings.Repeat("0", 64) },
	} {
		write(t, file, "one\n")
		op := edit(t, file, "o", "0")
		time.Sleep(12 * time.Millisecond) // a step of the clock that files are stamped with
		change(&op)
		before := content(t, file)
		if r := fileAction(t, c, p, sandboxprofile.EditFile, op); r.Errno != "ESTALE" || content(t, file) != before {
			t.Errorf("%s: %q, left %q", name, r.Errno, content(t, file))
		}
	}
	write(t, file, "one\n")
	op := edit(t, file, "o", "0")
	op.SHA256 = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"
	if r := fileAction(t, c, p, sandboxprofile.EditFile, op); r.Errno != "" || content(t, file) != "0ne\n" {
		t.Errorf("unchanged, with the right digest: %+v", r)
	}
	stale := sandboxprofile.Operation{Path: file, Content: []byte("x"), SHA256: op.SHA256}
	if r := fileAction(t, c, p, sandboxprofile.WriteFile, stale); r.Errno != "ESTALE" || content(t, file) != "0ne\n" {
		t.Errorf("a write bound to an old digest: %+v", r)
	}
}

// concurrentEdits has many sandboxes change one file at once. Each counts up a
// digit of its own, so a lost change is seen.
func concurrentEdits(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p, file := Profile(t, ws), ws+"/file"
	const n = 4
	text := ""
	for i := range n {
		text += fmt.Sprintf("<%d:0>\n", i)
	}
	write(t, file, text)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			box, err := c.Prepare(context.Background(), p)
			if err != nil {
				t.Error(err)
				return
			}
			defer box.Close()
			for step := 0; step < 5; {
				op := edit(t, file, fmt.Sprintf("<%d:%d>", i, step), fmt.Sprintf("<%d:%d>", i, step+1))
				r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.EditFile, File: &op}, confine.Stdio{})
				switch {
				case err != nil || r.Errno != "" && r.Errno != "ESTALE":
					t.Errorf("edit: %+v, %v", r, err)
					return
				case r.Errno == "":
					step++
				}
			}
		})
	}
	all.Wait()
	if got, want := content(t, file), strings.ReplaceAll(text, ":0", ":5"); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
	if entries, _ := os.ReadDir(ws); len(entries) != 1 {
		t.Errorf("litter: %v", entries)
	}
}

// fullDisk fills the private /tmp, which is as small as the profile says.
func fullDisk(t *testing.T, c confine.Confiner) {
	p := Profile(t, Workspace(t))
	p.Limits.Scratch = 128 << 10
	box, err := c.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	do := func(kind sandboxprofile.Kind, op sandboxprofile.Operation) confine.Result {
		op.Path, op.MaxBytes = "/tmp/file", 1<<20
		r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: kind, File: &op}, confine.Stdio{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := do(sandboxprofile.WriteFile, sandboxprofile.Operation{Content: []byte("old")}); r.Errno != "" {
		t.Fatalf("write: %+v", r)
	}
	if r := do(sandboxprofile.WriteFile, sandboxprofile.Operation{Content: make([]byte, 256<<10)}); r.Errno != "ENOSPC" {
		t.Errorf("a write that does not fit: %+v", r)
	}
	if r := do(sandboxprofile.ReadFile, sandboxprofile.Operation{}); r.Errno != "" || string(r.File.Content) != "old" {
		t.Errorf("the file is %+v %q after it", r, r.File.Content)
	}
	list := sandboxprofile.Operation{Path: "/tmp", MaxBytes: 1000, Search: &sandboxprofile.Search{Depth: 1, Limit: 10, Within: time.Second}}
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.ListFiles, File: &list}, confine.Stdio{})
	if err != nil || len(r.File.Found.Entries) != 1 {
		t.Errorf("litter: %+v, %v", r.File.Found, err)
	}
}

// oddFiles are those on which reading or writing would block or have effects.
func oddFiles(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	if err := unix.Mkfifo(ws+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	serveUnix(t, ws+"/socket", ws+"/datagram")
	write(t, ws+"/dir/file", "x")
	if err := os.Truncate(ws+"/dir/file", 1<<40); err != nil { // sparse: a terabyte of nothing
		t.Fatal(err)
	}
	write(t, ws+"/a\nb", "needle\n")
	p := Profile(t, ws)
	for path, errnos := range map[string]string{
		"/fifo": "EINVAL", "/socket": "EINVAL ENXIO EACCES", "/dir": "EISDIR", "/dir/file": "EFBIG", "/missing": "ENOENT",
	} {
		op := sandboxprofile.Operation{Path: ws + path, MaxBytes: 1 << 20, Edits: []sandboxprofile.Edit{{Old: "x", New: "y"}}}
		if path != "/missing" {
			op.Base = base(t, ws+path)
		}
		if r := fileAction(t, c, p, sandboxprofile.EditFile, op); !strings.Contains(errnos, r.Errno) || r.Errno == "" {
			t.Errorf("edit %s: %q, want %s", path, r.Errno, errnos)
		}
		if path == "/dir/file" || path == "/missing" {
			continue
		}
		if r := fileAction(t, c, p, sandboxprofile.ReadFile, op); !strings.Contains(errnos, r.Errno) || r.Errno == "" {
			t.Errorf("read %s: %q, want %s", path, r.Errno, errnos)
		}
		if r := fileAction(t, c, p, sandboxprofile.WriteFile, op); !strings.Contains(errnos, r.Errno) || r.Errno == "" {
			t.Errorf("write %s: %q, want %s", path, r.Errno, errnos)
		}
	}
	grep := search(ws)
	grep.Search.Pattern = "needle|x"
	r := fileAction(t, c, p, sandboxprofile.GrepFiles, grep)
	if r.Errno != "" || len(r.File.Found.Lines) != 1 || r.File.Found.Lines[0].Path != "a\nb" {
		t.Errorf("grep: %+v %+v", r, r.File.Found)
	}
}

// devices are refused by reads, edits and writes; a program may use them.
func devices(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	for _, path := range []string{"/dev/zero", "/dev/null", "/dev/full", "/dev/random"} {
		op := sandboxprofile.Operation{Path: path, MaxBytes: 1 << 10, Edits: []sandboxprofile.Edit{{Old: "x", New: "y"}}, Content: []byte("x")}
		for _, kind := range []sandboxprofile.Kind{sandboxprofile.ReadFile, sandboxprofile.WriteFile, sandboxprofile.EditFile} {
			if r := fileAction(t, c, p, kind, op); r.Errno != "EINVAL" && r.Errno != "EROFS" {
				t.Errorf("%s %s: %q, want it refused as no regular file", kind, path, r.Errno)
			}
		}
	}
	if o := Shell(t, c, p, ws, "head -c 3 /dev/zero > /dev/null && echo x > /dev/null && echo fine"); o.Out != "fine\n" {
		t.Errorf("the same devices for a program: %+v %q %q", o.Result, o.Out, o.Err)
	}
}

// endlessFiles are read as far as is asked for, and no longer than the call lasts:
// one that is mostly a hole, and one that grows while it is read.
func endlessFiles(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	write(t, ws+"/sparse", "first\n")
	if err := os.Truncate(ws+"/sparse", 1<<42); err != nil {
		t.Fatal(err)
	}
	r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/sparse", MaxBytes: 8})
	if r.Errno != "" || string(r.File.Content) != "first\n\x00\x00" || !r.File.Truncated || r.File.Size != 1<<42 {
		t.Errorf("the beginning of a sparse file: %+v %+v", r, r.File)
	}
	p.Limits.Wall = 300 * time.Millisecond
	start := time.Now()
	r = fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/sparse", MaxBytes: 8, FirstLine: 3})
	if r.Cause != confine.TimedOut {
		t.Errorf("a line behind the hole: %+v", r)
	}
	stale := sandboxprofile.Operation{Path: ws + "/sparse", Content: []byte("x"), SHA256: strings.Repeat("0", 64)}
	if r = fileAction(t, c, p, sandboxprofile.WriteFile, stale); r.Cause != confine.TimedOut || r.Errno != "ECANCELED" {
		t.Errorf("a write that is bound to the digest of 4 TiB: %+v", r)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("they took %v to end", d)
	}
	if info, err := os.Stat(ws + "/sparse"); err != nil || info.Size() != 1<<42 {
		t.Errorf("the file after it: %v, %v", info, err)
	}
	growing(t, c, ws)
}

// growing reads a file to which another process keeps adding lines.
func growing(t *testing.T, c confine.Confiner, ws string) {
	p := Profile(t, ws)
	write(t, ws+"/log", "line\n")
	f, err := os.OpenFile(ws+"/log", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer f.Close()
		chunk := strings.Repeat("line\n", 1000)
		for ctx.Err() == nil {
			if info, err := f.Stat(); err != nil || info.Size() > 64<<20 { // not the whole disk
				break
			}
			if _, err := f.WriteString(chunk); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/log", MaxBytes: 1 << 20})
	if r.Errno != "" || len(r.File.Content) > 1<<20 || strings.Trim(string(r.File.Content), "line\n") != "" || len(r.File.Content) == 0 {
		t.Errorf("a file that grows: %q, %d bytes", r.Errno, len(r.File.Content))
	}
	grep := search(ws + "/log")
	grep.Search.Pattern, grep.Search.Root = "absent", ws
	if r := fileAction(t, c, p, sandboxprofile.GrepFiles, grep); r.Errno != "" || r.File.Found.Stopped != "" || len(r.File.Found.Lines) != 0 {
		t.Errorf("a search through it: %+v %+v", r, r.File)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// oddNames are names that could be taken for something else, and the longest path
// that there is. Each is written, edited, read and found.
func oddNames(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	long := ws
	for len(long)+201 < 4095 {
		long += "/" + strings.Repeat("d", 199)
	}
	long += "/" + strings.Repeat("f", 4095-len(long)-1) // PATH_MAX without its NUL
	for _, path := range []string{ws + "/a\nb", ws + "/ ", ws + "/-rf", ws + "/\x1b[2J", ws + "/\u202e", ws + "/*?[", ws + "/" + strings.Repeat("\u20ac", 85), long} {
		w := fileAction(t, c, p, sandboxprofile.WriteFile, sandboxprofile.Operation{Path: path, Content: []byte("one"), MakeParents: true})
		if w.Errno != "" || !w.File.Created {
			t.Errorf("write %.40q: %+v", path, w)
			continue
		}
		r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: path, MaxBytes: 10})
		if r.Errno != "" || string(r.File.Content) != "one" {
			t.Errorf("read %.40q: %+v", path, r)
		}
	}
	if entries, err := os.ReadDir(ws); err != nil || len(entries) != 8 {
		t.Errorf("%d names, %v", len(entries), err)
	}
	// A name that is not UTF-8 can be made by a program, and is listed.
	if o := Shell(t, c, p, ws, `mkdir bad; echo needle > $'bad/\xff'`); o.ExitCode != 0 {
		t.Fatalf("%+v %q", o.Result, o.Err)
	}
	if got := paths(fileAction(t, c, p, sandboxprofile.ListFiles, search(ws+"/bad"))); len(got) != 1 || got[0] != "\ufffd" {
		t.Errorf("a name that is not UTF-8 is listed as %q", got)
	}
	tooLong := sandboxprofile.Operation{Path: ws + "/" + strings.Repeat("n", 256), Content: []byte("x")}
	if r := fileAction(t, c, p, sandboxprofile.WriteFile, tooLong); r.Errno != "ENAMETOOLONG" {
		t.Errorf("a name of 256 bytes: %+v", r)
	}
}

// readOnlyDisk is a directory that may be read: nothing in it changes, and nothing
// is left in it.
func readOnlyDisk(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/file", "old")
	p := Profile(t, ws)
	p.Paths[ws] = sandboxprofile.Read
	for _, path := range []string{"/file", "/new", "/dir/new"} {
		op := sandboxprofile.Operation{Path: ws + path, Content: []byte("new"), MakeParents: true}
		if r := fileAction(t, c, p, sandboxprofile.WriteFile, op); r.Errno != "EROFS" && r.Errno != "EACCES" {
			t.Errorf("write %s: %+v", path, r)
		}
	}
	if entries, _ := os.ReadDir(ws); len(entries) != 1 || content(t, ws+"/file") != "old" {
		t.Errorf("left %v, %q", entries, content(t, ws+"/file"))
	}
	if r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/file", MaxBytes: 10}); string(r.File.Content) != "old" {
		t.Errorf("read: %+v", r)
	}
}

func search(dir string) sandboxprofile.Operation {
	return sandboxprofile.Operation{
		Path: dir, MaxBytes: 1 << 16,
		Search: &sandboxprofile.Search{Root: dir, Limit: 100, Within: 10 * time.Second},
	}
}

// searches stay inside: what a link leads to is not read, nor what is hidden, nor
// what the profile does not list.
func searches(t *testing.T, c confine.Confiner) {
	ws, other := Workspace(t), Workspace(t)
	write(t, ws+"/src/a.go", "needle\n")
	write(t, ws+"/out/b.go", "needle\n")
	write(t, ws+"/.gitignore", "/out\n")
	write(t, ws+"/app/.env", "needle\n")
	write(t, other+"/secret", "needle\n")
	for link, target := range map[string]string{"/link": other, "/filelink": other + "/secret", "/up": "..", "/self": "."} {
		if err := os.Symlink(target, ws+link); err != nil {
			t.Fatal(err)
		}
	}
	p := Profile(t, ws)
	p.Paths[other] = sandboxprofile.Read
	op := search(ws)
	op.Search.Pattern = "needle"
	r := fileAction(t, c, p, sandboxprofile.GrepFiles, op)
	if r.Errno != "" || len(r.File.Found.Lines) != 1 || r.File.Found.Lines[0].Path != "src/a.go" {
		t.Errorf("grep: %+v %+v", r, r.File.Found)
	}
	if s := r.File.Found.Skipped; len(s) != 1 || s[0].Path != "app/.env" {
		t.Errorf("skipped %+v, want the hidden file", s)
	}
	op = search(ws)
	op.Search.Glob = "**"
	r = fileAction(t, c, p, sandboxprofile.GlobFiles, op)
	if got := fmt.Sprint(paths(r)); got != "[.gitignore app/.env filelink link self src/a.go up]" {
		t.Errorf("glob: %s", got)
	}
	op.Search.Hide = p.Hide
	if got := fmt.Sprint(paths(fileAction(t, c, p, sandboxprofile.GlobFiles, op))); strings.Contains(got, ".env") {
		t.Errorf("glob without what is hidden: %s", got)
	}
	for path, want := range map[string]string{"/link": "ELOOP", "/missing": "ENOENT", "/src/a.go": "ENOTDIR"} {
		op := search(ws + path)
		if r := fileAction(t, c, p, sandboxprofile.ListFiles, op); r.Errno != want {
			t.Errorf("list %s: %q, want %s", path, r.Errno, want)
		}
	}
	if r := fileAction(t, c, Profile(t, ws), sandboxprofile.ListFiles, search(other)); r.Errno != "ENOENT" && r.Errno != "EACCES" {
		t.Errorf("list of an unlisted directory: %q", r.Errno)
	}
	if r := fileAction(t, c, p, sandboxprofile.ListFiles, search(other)); r.Errno != "" || fmt.Sprint(paths(r)) != "[secret]" {
		t.Errorf("list of the same directory, listed: %+v", r)
	}
}

func paths(r confine.Result) []string {
	var all []string
	if r.File != nil && r.File.Found != nil {
		for _, e := range r.File.Found.Entries {
			all = append(all, e.Path)
		}
	}
	return all
}

// searchEnds cancels a search that would take long.
func searchEnds(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	line := strings.Repeat("x", 1<<10) + "\n"
	write(t, ws+"/big", strings.Repeat(line, 64<<10)) // 64 MiB
	op := search(ws)
	op.Search.Pattern = `(x+x+){20}y`
	p := Profile(t, ws)
	p.Limits.Wall = 300 * time.Millisecond
	if r := fileAction(t, c, p, sandboxprofile.GrepFiles, op); r.Cause != confine.TimedOut || r.File.Found.Stopped != sandboxprofile.StoppedByCall {
		t.Errorf("beyond the call's time: %+v %+v", r, r.File)
	}
	op.Search.Within = 100 * time.Millisecond
	p.Limits.Wall = patience * 60 * time.Second
	if r := fileAction(t, c, p, sandboxprofile.GrepFiles, op); r.Cause != confine.Exited || r.File.Found.Stopped != sandboxprofile.StoppedAtTime {
		t.Errorf("beyond its own time: %+v %+v", r, r.File)
	}
}
