package linux

import (
	"context"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Await waits for the warm sandbox that Ahead has begun to build.
func (c *WarmPool) Await(p sandboxprofile.Profile) { c.await(context.Background(), p) }

// QueuePlaces are where the queue for names may lie.
func QueuePlaces() []string { return queuePlaces() }

// NameQueue opens the locks of a sandbox.
var NameQueue = nameQueue

// Expected waits for what is built ahead without namespaces.
func (s SessionBackend) Expected() { s.host.tasks.Wait() }

// LeaveMemory has a backend read what memory the host has left from a file of the form of
// /proc/meminfo, and keep spare bytes of it.
func LeaveMemory(c confine.Confiner, meminfo string, spare int64) {
	var r *room
	switch c := c.(type) {
	case *Bwrap:
		r = c.room
	case *Landlock:
		r = c.room
	}
	r.host, r.spare = hostRoom{meminfo: meminfo}, spare
}

// OwnQueue has what is prepared from here on use locks of its own.
func OwnQueue(t *testing.T, dir string) {
	was := queuePlaces
	queuePlaces = func() []string { return []string{dir} }
	t.Cleanup(func() { queuePlaces = was })
}
