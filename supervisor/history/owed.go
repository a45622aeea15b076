package history

import (
	"context"
	"sync"

	"github.com/sandgate/sandgate/audit"
)

// Owed are the ends of calls that ran and whose log had no room at that moment: without
// them the next start would take the calls for interrupted ones.
type Owed struct {
	mu  sync.Mutex
	all []audit.Record
}

// maxOwed bounds them. The next start reports the rest as interrupted.
const maxOwed = 4096

// Add owes one more.
func (o *Owed) Add(r audit.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) < maxOwed {
		o.all = append(o.all, r)
	}
}

// Write writes to log what is owed, before anything that comes later.
func (o *Owed) Write(log *audit.Log) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.all) > 0 {
		r := o.all[0]
		o.all = o.all[1:]
		if _, err := log.Append(context.Background(), r); err != nil {
			o.all = append(o.all, r) // behind the others, if the fault is its own
			return
		}
	}
}
