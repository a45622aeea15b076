package supervisor

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// exposeEnv names a directory and a port: the test's own binary is then a supervisor
// with a task that serves there, until it is killed.
const exposeEnv = "SUPERVISOR_TEST_EXPOSE"

// TestExposingChild is the supervisor that dies. It is no test of its own.
func TestExposingChild(t *testing.T) {
	dir, port, ok := strings.Cut(os.Getenv(exposeEnv), ":")
	if !ok {
		return
	}
	f := newFixture(t, setup{at: dir, mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) {
		p.Network.Expose = []string{port + ":8000"}
	}})
	i := f.start(t, map[string]any{"command": fmt.Sprintf(pythonServer, 8000) + " " + dir})
	f.read(t, i.TaskID, "up")
	fmt.Println("serving")
	select {}
}

// TestAKilledSupervisorLeavesNoListener: not on the host, and not inside, where the
// server goes with it.
func TestAKilledSupervisorLeavesNoListener(t *testing.T) {
	dir, port := confinetest.Workspace(t), unusedPort(t)
	if err := os.Mkdir(dir+"/ws", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestExposingChild$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", exposeEnv, dir, port))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "serving" {
	}
	if lines.Text() != "serving" {
		t.Fatal("the supervisor does not serve")
	}
	writeFile(t, dir+"/ws/page.html", "from inside")
	url := fmt.Sprintf("http://127.0.0.1:%d/page.html", port)
	if text, err := get(url); text != "from inside" || err != nil {
		t.Fatalf("while it lives: %q, %v", text, err)
	}
	if !runs(t, dir) {
		t.Fatal("the server is not seen in /proc: the check below would mean nothing")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	refusedAt(t, port)
	soon(t, "a process is left", func() bool { return !runs(t, dir) })
}
