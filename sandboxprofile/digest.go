package sandboxprofile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Digest is the SHA-256 of the normalised profile as JSON, "sha256:<hex>".
// Profiles that allow the same in the same words have the same digest.
func (p Profile) Digest() string { return digest(p.Normalize()) }

// Key names the shape of p: what changes mounts, namespaces or filters. Calls
// whose profiles have the same key can share a sandbox. Environment and limits
// (but the size of scratch directories) are set for each call and are not part
// of it, and neither is Fresh.
func (p Profile) Key() string {
	p = p.Normalize()
	p.Env = Env{}
	p.Limits = Limits{Scratch: p.Limits.Scratch}
	p.Fresh = false
	return digest(p)
}

func digest(p Profile) string {
	b, err := json.Marshal(p) // map keys come out sorted; every field has a fixed order
	if err != nil {
		panic(fmt.Sprintf("sandboxprofile: bug: a profile does not marshal: %v", err))
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
