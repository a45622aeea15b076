package seccomp

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// callTable has a line for each call that a rule names: its name and its number on amd64
// and arm64, or "-" where it has none. libseccomp wrote it.
//
//go:embed shipped/calls.txt
var callTable string

var callNumbers = sync.OnceValue(func() map[string]map[string]uint32 {
	numbers := map[string]map[string]uint32{"amd64": {}, "arm64": {}}
	for line := range strings.Lines(callTable) {
		var name, amd64, arm64 string
		if _, err := fmt.Sscan(line, &name, &amd64, &arm64); err != nil {
			panic("seccomp: shipped/calls.txt: " + line)
		}
		for arch, text := range map[string]string{"amd64": amd64, "arm64": arm64} {
			var nr uint32
			if _, err := fmt.Sscan(text, &nr); err == nil {
				numbers[arch][name] = nr
			}
		}
	}
	return numbers
})

// callNumber is the number of a call on an architecture; false if it is not known there.
func callNumber(arch, call string) (uint32, bool) {
	nr, ok := callNumbers()[arch][call]
	return nr, ok
}
