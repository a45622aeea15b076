package confine

import (
	"context"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// Await waits for the cell that Ahead has begun to build.
func (c *Cells) Await(p sandboxprofile.Profile) { c.await(context.Background(), p) }

// QueuePlaces are where the queue for names may lie.
var QueuePlaces = queuePlaces

// NameQueue opens the locks of a sandbox.
var NameQueue = nameQueue

// Expected waits for what is built ahead without namespaces.
func (s SessionBackend) Expected() { s.host.tasks.Wait() }
