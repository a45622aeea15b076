package broker

import (
	"fmt"
	"runtime"
	"strings"
)

// guard calls act. A mistake of ours in it, which programs may know how to cause, would be
// the end of init, and with it of all that is said about the action. So it is kept here:
// from then on nothing is done any more, and who asks for Fault ends the programs.
func (b *Broker) guard(act func()) {
	if b.fault.Load() != nil {
		return
	}
	defer func() {
		if mistake := recover(); mistake != nil {
			text := fmt.Sprintf("%v, in %s", mistake, culprit())
			b.fault.CompareAndSwap(nil, &text)
		}
	}()
	act()
}

// culprit names the innermost functions of those that have panicked.
func culprit() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	var names []string
	for panicked, more := false, true; more && len(names) < 4; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicked = true
		case panicked:
			names = append(names, fmt.Sprintf("%s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], f.Line))
		}
	}
	return strings.Join(names, ", ")
}

// Fault is a mistake of the broker's own, "" for none. Since then it has refused everything
// (EIO), and what it knows may be wrong.
func (b *Broker) Fault() string {
	if b == nil {
		return ""
	}
	if text := b.fault.Load(); text != nil {
		return *text
	}
	return ""
}
