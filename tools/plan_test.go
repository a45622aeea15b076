package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestDigestIsOfTheWholePlan: the digest is that of the plan as one JSON text,
// whatever is in it, the text of an empty profile included.
func TestDigestIsOfTheWholePlan(t *testing.T) {
	for _, p := range []Plan{
		{},
		{Tool: "shell", Profile: sandboxprofile.Top(), Background: true},
		{Tool: string(emptyProfile()), Task: TaskOperation{ID: string(emptyProfile())}},
		{Tool: "run", Action: sandboxprofile.Action{Exec: &sandboxprofile.Program{Argv: []string{string(emptyProfile())}}},
			Profile: sandboxprofile.Profile{Hide: []string{string(emptyProfile())}}, Pins: []Pin{{Path: string(emptyProfile())}}},
	} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if got, want := p.Digest(), "sha256:"+hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: %s, want %s", b, got, want)
		}
	}
}
