package linux_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestSettingsAreCopiesForOneCall: a sandbox for one call has a file of the machine's settings
// as a copy that nobody inside can change, one that stands for more has the file itself,
// and what only some may read is never copied.
func TestSettingsAreCopiesForOneCall(t *testing.T) {
	want, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		c      confine.Confiner
		mounts string
	}{"one call": {newBwrap(t), "0"}, "standing": {newWarmPool(t), "1"}} {
		ws := confinetest.Workspace(t)
		p := confinetest.Profile(t, ws)
		p.Paths["/etc/passwd"], p.Paths["/etc/shadow"] = sandboxprofile.Read, sandboxprofile.Read
		for script, out := range map[string]string{
			"cat /etc/passwd": string(want),
			"grep -c ' /etc/passwd ' /proc/self/mountinfo": x.mounts + "\n",
			"grep -c ' /etc/shadow ' /proc/self/mountinfo": "1\n",
			"echo x >> /etc/passwd":                        "Read-only file system\nPermission denied",
			"chmod 0777 /etc/passwd":                       "Read-only file system",
			"rm /etc/passwd":                               "Read-only file system\nDevice or resource busy",
			"mv /etc/passwd /etc/other":                    "Read-only file system\nDevice or resource busy",
			"echo x > /tmp/passwd && cat /tmp/passwd":      "x\n",
		} {
			o := confinetest.Shell(t, x.c, p, ws, script)
			denied := strings.Contains(out, "Read-only")
			ok := o.Out == out && !denied
			for _, why := range strings.Split(out, "\n") {
				ok = ok || denied && o.ExitCode != 0 && strings.Contains(o.Err, why)
			}
			if !ok {
				t.Errorf("%s: %s: %q, %q, %d", name, script, o.Out, o.Err, o.ExitCode)
			}
		}
	}
}
