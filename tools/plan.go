package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Plan is the whole of what a call would do: the action, the files it stands
// on, and the profile that bounds it. The prompt, `why`, tools.check, the
// launcher and the audit log all speak from this one value, and an approval is
// bound to its digest.
type Plan struct {
	Tool   string                `json:"tool"`
	Action sandboxprofile.Action `json:"action"`
	// Pins are the files whose identity is part of what was approved: the
	// executable, and a script it was named to run. Another file behind the same
	// path at launch is drift, and drift is a denial.
	Pins    []Pin                  `json:"pins,omitempty"`
	Profile sandboxprofile.Profile `json:"profile"`
}

// A Pin identifies a file by more than its name. Sizes are bytes, times are
// nanoseconds since 1970.
type Pin struct {
	Path    string `json:"path"`
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	// ChangeTime is st_ctime: unlike the modification time, its owner cannot
	// set it back after a change.
	ChangeTime int64  `json:"ctime_ns"`
	Mode       uint32 `json:"mode"` // st_mode, type bits included
}

// Digest is the SHA-256 of the plan's canonical JSON, as "sha256:<hex>". Two
// plans with the same digest do the same thing under the same profile.
func (p Plan) Digest() string {
	b, err := json.Marshal(p) // map keys come out sorted; every field has a fixed order
	if err != nil {
		panic(fmt.Sprintf("tools: bug: a plan does not marshal: %v", err))
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
