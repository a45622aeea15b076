package barred

import (
	"flag"
	"strings"
	"testing"
)

// Again is the -test.run that runs t again in another process. Which subtests were chosen
// outside is chosen inside too, if the pattern says it without alternatives: those may
// belong to other tests.
func Again(t *testing.T) string {
	again := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	chosen := flag.Lookup("test.run").Value.String()
	if strings.ContainsAny(chosen, "|[") {
		return again
	}
	if parts := strings.Split(chosen, "/"); len(parts) > strings.Count(t.Name(), "/")+1 {
		again += "/" + strings.Join(parts[strings.Count(t.Name(), "/")+1:], "/")
	}
	return again
}
