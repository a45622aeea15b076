package bounds

import "github.com/sandgate/sandgate/approval"

// Stricter is the mode that allows less. A session can only tighten.
func Stricter(own, asked approval.Mode) approval.Mode {
	rank := map[approval.Mode]int{approval.Strict: 0, approval.Interactive: 1, approval.ApproveAll: 2}
	if r, ok := rank[asked]; ok && r < rank[own] {
		return asked
	}
	return own
}
