package linux_test

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

var suites = flag.Bool("suites", false, "TestSuitesOfOthers runs CPython's whole list (Debian's libpython3-testsuite), and not only Go's tests of path/filepath")

// A suite are tests of somebody else's about files.
type suite struct {
	name string
	argv func(t *testing.T, dir string) []string // given a directory to build in
	dir  string
	line *regexp.Regexp // of a test that ended: its name, and how
}

// goRoot is where the go command is from.
var goRoot = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

var goLine = regexp.MustCompile(`(?m)^ *--- (?P<how>PASS|FAIL|SKIP): (?P<name>\S+)`)

func goSuite(pkg string) suite {
	return suite{name: "go " + pkg, dir: goRoot() + "/src/" + pkg, line: goLine, argv: func(t *testing.T, dir string) []string {
		out, err := exec.Command("go", "test", "-c", "-o", dir+"/go.test", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{dir + "/go.test", "-test.v", "-test.short", "-test.timeout=8m"}
	}}
}

// differ are the tests that go otherwise inside, and why that is so.
var differ = map[string]string{
	"TestEvalSymlinks":                      unlisted,
	"TestChdirAndGetwd":                     unlisted,
	"TestDoubleCloseError":                  unlisted,
	"TestDoubleCloseError/dir":              unlisted,
	"TestFileReadDir":                       unlisted,
	"TestFileReadDir/sysdir":                unlisted,
	"TestFileReaddir":                       unlisted,
	"TestFileReaddir/sysdir":                unlisted,
	"TestFileReaddirnames":                  unlisted,
	"TestFileReaddirnames/sysdir":           unlisted,
	"TestRemoveAllLongPath":                 "a directory whose whole path is longer than PATH_MAX cannot be judged, so nothing is made in it",
	"test.test_os.Pep383Tests.test_listdir": unlisted,
	"test.test_pathlib.PathTest.test_complex_symlinks_relative_dot_dot":      dotdot,
	"test.test_pathlib.PosixPathTest.test_complex_symlinks_relative_dot_dot": dotdot,
	"test.test_pathlib.PosixPathTest.test_resolve_loop":                      dotdot,
	"test.test_largefile.TestSocketSendfile.test_it":                         "it looks localhost up in /etc/hosts, which the profile does not list",
	"test.test_os.ExtendedAttributeTests.test_fds":                           attributes,
	"test.test_os.ExtendedAttributeTests.test_lpath":                         attributes,
	"test.test_os.ExtendedAttributeTests.test_simple":                        attributes,
	"test.test_os.ProgramPriorityTests.test_set_get_priority":                "priorities are set by the number 0, which is the program itself, and by no other",
}

const (
	unlisted   = "it lists a directory that the profile does not list: /, /tmp or /etc"
	attributes = "extended attributes are refused"
	dotdot     = "a link with .. after a name is refused: that name can become a link, and this one lead out"
)

// TestSuitesOfOthers runs the tests that others have for calls on files, inside and
// outside: they go the same way, but for those in a list with reasons.
func TestSuitesOfOthers(t *testing.T) {
	all := []suite{goSuite("path/filepath")}
	if _, err := exec.LookPath("go"); err != nil && !*suites {
		t.Skip("building the tests of Go takes Go")
	}
	if *suites {
		all = append(all, goSuite("os"), suite{name: "cpython", dir: "/usr/lib", line: regexp.MustCompile(`(?m)^\w+ \((?P<name>test\.[\w.]+)\)[^\n]*?(?:\n[^\n]+)?? \.\.\. (?P<how>ok|FAIL|ERROR|skipped|expected failure)`),
			argv: func(t *testing.T, _ string) []string {
				argv := []string{"/usr/bin/python3", "-m", "unittest", "-v", "-b"}
				for _, m := range strings.Fields("os posix shutil tempfile pathlib fileio file glob mmap stat largefile fcntl fileinput filecmp dbm_dumb zipfile tarfile mailbox") {
					argv = append(argv, "test.test_"+m)
				}
				return argv
			}})
	}
	l := newLandlock(t, linux.LandlockOptions{})
	for _, x := range all {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			base := confinetest.Workspace(t)
			argv := x.argv(t, base)
			var went [2]map[string]string
			for side, dir := range []string{base + "/outside", base + "/inside"} {
				mkdir(t, dir)
				own(t, base, dir)
				env := []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=/usr/bin:/bin", "GOROOT=" + goRoot(), "LANG=C.UTF-8"}
				var said string
				at := x.dir
				if strings.HasPrefix(x.name, "cpython") {
					at = dir
				}
				if side == 0 {
					cmd := exec.Command(argv[0], argv[1:]...)
					cmd.Dir, cmd.Env = at, env
					if os.Geteuid() == 0 {
						cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: pathCallsUser, Gid: pathCallsUser}}
					}
					b, _ := cmd.CombinedOutput() // what fails is compared
					said = string(b)
				} else {
					p := confinetest.Profile(t, dir)
					p.Paths[base] = sandboxprofile.Read | sandboxprofile.Execute
					p.Paths[goRoot()] = sandboxprofile.Read | sandboxprofile.Execute
					p.Paths["/etc/group"] = sandboxprofile.Read
					p.Env.Names = append(p.Env.Names, "TMPDIR", "GOROOT")
					p.Limits = sandboxprofile.NoLimits()
					p.Limits.Wall = 10 * time.Minute
					box, err := l.Prepare(context.Background(), p)
					if err != nil {
						t.Fatal(err)
					}
					var out bytes.Buffer
					_, err = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
						Path: argv[0], Argv: argv, Dir: at, Env: env}}, confine.Stdio{Stdout: &out, Stderr: &out})
					box.Close()
					if err != nil {
						t.Fatal(err)
					}
					said = out.String()
				}
				if f := os.Getenv("SANDGATE_SUITE_LOG"); f != "" {
					put(t, f+"-"+strings.ReplaceAll(strings.ReplaceAll(x.name, "/", "-"), " ", "-")+[]string{"-outside", "-inside"}[side], said)
				}
				went[side] = map[string]string{}
				for _, m := range x.line.FindAllStringSubmatch(said, -1) {
					went[side][m[x.line.SubexpIndex("name")]] = m[x.line.SubexpIndex("how")]
				}
			}
			if len(went[0]) < 20 {
				t.Fatalf("%d tests", len(went[0]))
			}
			for _, name := range slices.Sorted(maps.Keys(went[0])) {
				if a, b := went[0][name], went[1][name]; a != b && differ[name] == "" {
					t.Errorf("%s: %s outside, %q inside", name, a, b)
				}
			}
			t.Logf("%d tests", len(went[0]))
		})
	}
}
