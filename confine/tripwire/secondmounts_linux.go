package tripwire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A mountPoint is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountPoint struct {
	device, root, at string // root is what of the device is seen
}

// mountPoints reads the table of mounts.
func mountPoints() ([]mountPoint, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var list []mountPoint
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			list = append(list, mountPoint{f[2], unescape.Replace(f[3]), unescape.Replace(f[4])})
		}
	}
	return list, nil
}

// refuseSecondMounts fails where a directory that the profile shows is mounted a second time
// below what it shows, and is protected or hidden by one of its names and not by the
// other: names are judged by the path that leads to them.
func refuseSecondMounts(p sandboxprofile.Profile) error {
	if len(p.Protect) == 0 && len(p.Hide) == 0 {
		return nil
	}
	mounts, err := mountPoints()
	if err != nil {
		return confine.NewUnenforceable("the mounts", err)
	}
	shown := func(path string) bool {
		for dir := range p.Paths {
			if dir != path && dir != "/" && sandboxprofile.Contains(dir, path) && !sandboxprofile.IsSystemTree(dir) {
				return true
			}
		}
		return false
	}
	var rules *broker.Rules
	for _, m := range mounts {
		if !shown(m.at) {
			continue
		}
		if rules == nil {
			rules = broker.NewRules(p, nil)
		}
		for _, n := range mounts {
			if n.device != m.device || n == m || !sandboxprofile.Contains(n.root, m.root) {
				continue
			}
			rest, err := filepath.Rel(n.root, m.root)
			other := filepath.Join(n.at, rest)
			if err != nil || other == m.at || !shown(other) {
				continue
			}
			if rules.Of(other) != rules.Of(m.at) || rules.Readable(other) != rules.Readable(m.at) || rules.Reach(other) != rules.Reach(m.at) {
				return &confine.Unenforceable{
					Part:   "the mounts",
					Reason: fmt.Sprintf("%s is mounted a second time at %s, where other names are protected or hidden", other, m.at),
					Hint:   "unmount the one or the other, or leave it out of what the profile shows",
				}
			}
		}
	}
	return nil
}
