package linux_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/internal/pathcalls"
	"github.com/sandgate/sandgate/sandboxprofile"
)

var pathCalls = flag.Int("pathcalls", 4000, "how many path calls TestPathCallsAreTheKernels makes in each of its sequences")

const pathCallsWord = "make-path-calls"

// TestMakePathCalls is the program that TestPathCallsAreTheKernels runs.
func TestMakePathCalls(t *testing.T) {
	args := flag.Args()
	if len(args) == 0 || args[0] != pathCallsWord {
		t.Chdir(t.TempDir())                            // the calls change the working directory; this brings it back
		root := t.TempDir() + "/1/2/3/4/5/6/7/8/9/root" // deep: what climbs out of it is to stay in the test's own directory
		mkdir(t, root)
		args = append([]string{pathCallsWord}, pathcalls.Sequence{Root: root, Calls: 100, Threads: 1}.Args()...)
	}
	s, err := pathcalls.Parse(args[1:])
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Run(&out); err != nil {
		t.Fatal(err)
	}
	if len(flag.Args()) > 0 {
		_, _ = os.Stdout.Write(out.Bytes())
	}
}

// TestPathCallsAreTheKernels makes random sequences of the calls that name files, in a
// sandbox whose broker makes them and without one, on two copies of a tree: each answer
// is the same, and so are the trees.
func TestPathCallsAreTheKernels(t *testing.T) {
	l := newLandlock(t, linux.LandlockOptions{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		name            string
		threads         int
		fifos, redirect bool
	}{
		{"alone", 1, false, false}, {"with-fifos", 1, true, false}, {"reads-redirected", 1, false, true},
		{"threads", 4, false, false}, {"threads-redirected", 4, true, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			base := confinetest.Workspace(t)
			program := base + "/program"
			copyFile(t, self, program)
			var lines [2][]string
			var trees [2]string
			for side := range 2 {
				top := fmt.Sprintf("%s/%d", base, side)
				root := top + "/1/2/3/4/5/6/7/8/9/root"
				mkdir(t, root)
				if x.redirect {
					if err := os.WriteFile(root+"/.env", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				own(t, base, top)
				s := pathcalls.Sequence{Root: root, Seed: uint64(i + 1), Calls: *pathCalls, Threads: x.threads, FIFOs: x.fifos}
				argv := append([]string{program, "-test.run=^TestMakePathCalls$", "-test.v=false", pathCallsWord}, s.Args()...)
				var out string
				if side == 0 {
					cmd := exec.Command(argv[0], argv[1:]...)
					cmd.Dir, cmd.Env = root, []string{"HOME=/nowhere", "PATH=/usr/bin"}
					if os.Geteuid() == 0 {
						cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: pathCallsUser, Gid: pathCallsUser, NoSetGroups: false}}
					}
					b, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("%v\n%s", err, b)
					}
					out = string(b)
				} else {
					p := confinetest.Profile(t, top)
					p.Paths[program] = sandboxprofile.Read | sandboxprofile.Execute
					p.Limits = sandboxprofile.NoLimits()
					o := confinetest.Exec(t, context.Background(), l, p, root, nil, argv...)
					if o.ExitCode != 0 {
						t.Fatalf("%+v\n%.2000s\n%s", o.Result, o.Out, o.Err)
					}
					out = o.Out
				}
				lines[side], trees[side] = strings.Split(out, "\n"), describeTree(t, root)
			}
			differ := 0
			for n := range min(len(lines[0]), len(lines[1])) {
				if !same(lines[0][n], lines[1][n]) {
					t.Errorf("outside: %s\ninside:  %s", lines[0][n], lines[1][n])
					if differ++; differ > 5 {
						break
					}
				}
			}
			if len(lines[0]) != len(lines[1]) || len(lines[0]) < *pathCalls/2 {
				t.Errorf("%d lines outside, %d inside", len(lines[0]), len(lines[1]))
			}
			if differ == 0 && trees[0] != trees[1] {
				t.Errorf("the tree outside\n%s\nand inside\n%s", trees[0], trees[1])
			}
		})
	}
}

// same compares two lines. Where both calls fail, and one because a right is missing or a
// name is too long, the other may have looked at something else first. A link of procfs
// itself is not changed inside.
func same(outside, inside string) bool {
	call, a, _ := strings.Cut(outside, " = ")
	call2, b, _ := strings.Cut(inside, " = ")
	right := func(errno string) bool { return errno == "EACCES" || errno == "EPERM" || errno == "ENAMETOOLONG" }
	fails := func(answer string) bool { return len(answer) > 1 && answer[0] == 'E' }
	if a == "ok" && b == "EACCES" && strings.Contains(call, "/fd/FD") && (strings.HasSuffix(call, "flags 0x100") || strings.HasSuffix(call, "flags 0x1100")) {
		return call == call2
	}
	return call == call2 && (a == b || fails(a) && fails(b) && (right(a) || right(b)))
}

// pathCallsUser is who makes the calls where the test is root, which bare would have
// capabilities that no tool has.
const pathCallsUser = 12345

func own(t *testing.T, dirs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, pathCallsUser, pathCallsUser)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// describeTree is everything about a tree that a call could have changed.
func describeTree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(&b, strings.TrimPrefix(path, root), "cannot be read")
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprint(&b, strings.TrimPrefix(path, root), " ", pathcalls.Describe(&st))
		if os.Geteuid() != 0 && st.Mode&unix.S_IFMT != unix.S_IFLNK {
			if err := os.Chmod(path, 0o700); err != nil { // root reads it as it is
				return err
			}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			if st.Size < 1<<22 {
				content, err := os.ReadFile(path)
				fmt.Fprintf(&b, " %x %v", sha256.Sum256(content), err)
			}
		case unix.S_IFLNK:
			to, _ := os.Readlink(path)
			fmt.Fprint(&b, " -> ", strings.ReplaceAll(to, root, "ROOT"))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
