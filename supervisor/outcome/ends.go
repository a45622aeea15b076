package outcome

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// EndError says why a call that started did not end by itself. Its partial
// output is in the log's counts and has been streamed.
func EndError(ctx context.Context, r confine.Result, l sandboxprofile.Limits) error {
	switch r.Cause {
	case confine.TimedOut:
		return protocol.Errorf(protocol.CodeTimedOut, "timed out after %v; everything it had started was killed", l.Wall).
			WithHint("split the work, or run it with a longer limits.timeout if the operator agrees (--timeout of sandgate run)")
	case confine.OutputLimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "wrote more than %d bytes of output and was killed", l.Output).
			WithHint("write to a file, or print less (head, tail, grep)")
	case confine.PidsLimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "had more than %d processes and threads and was killed", cmp.Or(r.Processes, l.Pids)).
			WithHint("start fewer at a time (make -j4); the limit is sandbox.limits.pids, and --pids of sandgate run")
	case confine.MemoryLimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "used more than %d bytes of memory, files in /tmp and shared memory included, and was killed", l.Memory).
			WithHint("work on less at a time, start fewer processes, or write large files into the workspace and not into /tmp; the limit is sandbox.limits.memory, and --memory of sandgate run")
	case confine.HostMemory:
		return protocol.Errorf(protocol.CodeLimitExceeded, "the host or this container ran out of memory, and the kernel killed the sandbox, which used the most").
			WithHint("work on less at a time; the operator can lower sandbox.limits.memory, or give the container or unit more (memory.max, MemoryMax=, --memory)")
	case confine.CPULimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "used up its %v of processor time, that of all its processes together, and was killed", l.CPU).
			WithHint("split the work; the limit is sandbox.limits.cpu")
	case confine.ScratchLimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "wrote more than %d bytes into its private /tmp and HOME and was killed", l.Scratch).
			WithHint("write large files into the workspace, and remove files that are no longer needed")
	case confine.FileSizeLimit:
		return protocol.Errorf(protocol.CodeLimitExceeded, "wrote a file larger than %d bytes and was killed", l.FileSize).
			WithHint("write several smaller files, or compress the output; the limit is sandbox.limits.file_size, and --file-size of sandgate run, and counts holes too")
	case confine.Cancelled:
		return &protocol.Error{Code: protocol.CodeCancelled, Message: context.Cause(ctx).Error()}
	default:
		return nil
	}
}

// NotStarted says what kept a program from starting.
func NotStarted(r confine.Result, p *sandboxprofile.Program) string {
	switch {
	case r.Op == confine.OpChdir && r.Errno == "ELOOP":
		return fmt.Sprintf("cannot start in the directory %s: a link has appeared in its path since the call was decided about", p.Dir)
	case r.Op == confine.OpChdir:
		return fmt.Sprintf("cannot start in the directory %s: %s: programs are shown no such directory; give another as dir, or ask the user to set sandbox.workdir", p.Dir, r.Errno)
	}
	return p.Path + ": " + r.Errno
}

// MaxViolations bounds what a result repeats; the log has them all.
const MaxViolations = 50

// Gone are names that the call made in a private directory that ended with it. Its program succeeded, and
// nothing else would say that they are not on the machine.
func Gone(names []string) (found []protocol.Violation) {
	for _, name := range names {
		found = append(found, protocol.Violation{
			Kind: protocol.ViolationFile, Basis: protocol.Observed, Path: name, Right: protocol.RightWrite,
			Reason: "this was made in the sandbox's own home directory and is gone; to keep it, create that directory first and make it writable (run --rw)",
			Hint:   "nothing made there is kept: work below the workspace, or ask the user to create that directory and make it writable"})
	}
	return found
}

// LeftBy turns what a call left against the protected patterns into violations.
func LeftBy(list []confine.Planted) (found []protocol.Violation) {
	for _, p := range list[:min(len(list), MaxViolations)] {
		reason := p.Reason + " and was made by this call: "
		if p.Kept == "" {
			reason += "look at it before a program of yours follows it"
		} else {
			reason += "it was moved to " + p.Kept
		}
		found = append(found, protocol.Violation{
			Kind: protocol.ViolationFile, Basis: protocol.Observed, Path: p.Path, Right: protocol.RightWrite, Reason: reason})
	}
	if more := len(list) - MaxViolations; more > 0 {
		found = append(found, protocol.Violation{Kind: protocol.ViolationFile, Basis: protocol.Observed,
			Reason: fmt.Sprintf("%d more were made by this call", more)})
	}
	return found
}
