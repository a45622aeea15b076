package unixsock

import (
	"os"
	"os/exec"
	"testing"
)

func TestIsDescendant(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	child, me, parent := cmd.Process.Pid, os.Getpid(), os.Getppid()
	for _, tt := range []struct {
		pid, ancestor int
		want          bool
	}{
		{child, me, true}, {child, parent, true}, {me, me, true},
		{me, child, false}, {parent, me, false}, {1, me, false}, {0, me, false},
	} {
		if got, err := IsDescendant(tt.pid, tt.ancestor); got != tt.want || err != nil {
			t.Errorf("IsDescendant(%d, %d) = %v, %v", tt.pid, tt.ancestor, got, err)
		}
	}
	if _, err := IsDescendant(1<<22+1, me); err == nil {
		t.Error("a process that does not exist has parents")
	}
}
