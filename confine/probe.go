package confine

// A Finding is the answer of one live probe. A probe says yes, no, or that it
// could not find out; the last is never taken for a yes.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Remedy says what a person can do if Status is not Held.
	Remedy string `json:"remedy,omitempty"`
	// Needed is set if tools cannot be confined without it.
	Needed bool `json:"needed"`
}

// Status is a probe's answer.
type Status string

const (
	Held    Status = "held"    // tried, and enforced
	Absent  Status = "absent"  // tried, and this host does not enforce it
	Unknown Status = "unknown" // could not be found out
)

// Ready reports whether every needed probe is held.
func Ready(findings []Finding) bool {
	for _, f := range findings {
		if f.Needed && f.Status != Held {
			return false
		}
	}
	return true
}
