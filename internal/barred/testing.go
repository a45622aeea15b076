//go:build linux && cgo

package barred

import (
	"os"
	"os/exec"
	"testing"
)

// Run runs the tests, and lets the test binary stand in for the launcher. A package
// that puts its programs or tests into places calls it in its TestMain; one whose test
// binary stands in for several commands adds Main to them under Name.
func Run(m *testing.M) {
	if asCommand() {
		Main()
	}
	os.Exit(m.Run())
}

// Command runs a program in p. The test binary must know the launcher: see Run.
func (p Place) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{p.Name, name}, args...)...)
	cmd.Args[0] = Name
	return cmd
}

const insideEnv = "BARRED_INSIDE"

// Inside runs the calling test again in p, in a process of its own, which the test of
// the outer one reports on. It gives true in the inner process:
//
//	if !barred.Inside(t, place) {
//		return
//	}
//
// In a subtest, what its parents do is done in the inner process too.
func Inside(t *testing.T, p Place) bool {
	t.Helper()
	mark := p.Name + " " + t.Name()
	if os.Getenv(insideEnv) == mark {
		return true
	}
	home, err := os.MkdirTemp("", "home") // not t.TempDir, which only its owner reaches
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if os.Geteuid() == 0 {
		if err := os.Chown(home, p.UID, p.UID); err != nil {
			t.Fatal(err)
		}
	}
	cmd := p.Command(os.Args[0], "-test.run="+Again(t), "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), insideEnv+"="+mark, "HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in %s: %v\n%s", p.Name, err, out)
	}
	return false
}
