package serve

import (
	"runtime"
	"sync"
)

// standbyThreads is how many threads a supervisor has before it serves anybody. It is
// more than it was seen to use under load.
const standbyThreads = 48

// startThreads has the runtime make n threads, which it keeps and takes when it needs
// one. It ends the process when it cannot make another (runtime, newosproc), and where a
// container or unit bounds processes, one tool that forks can bring it there.
func startThreads(n int) {
	var ready sync.WaitGroup
	ready.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread() // while all of these hold one, each has its own
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		}()
	}
	ready.Wait()
}
