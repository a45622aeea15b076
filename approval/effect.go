package approval

import "fmt"

// Effect is the decision of a rule, a tool or a verdict about a call. The zero value denies.
// The smaller of two effects is the stricter, so min implements "the strictest wins".
type Effect int8

const (
	// Deny means that the call never runs, and no one can approve it.
	Deny Effect = iota
	// Ask means that a person decides.
	Ask
	// Allow means that no prompt is needed.
	Allow
)

var effects = [...]string{"deny", "ask", "allow"}

func (e Effect) String() string {
	if e < 0 || int(e) >= len(effects) {
		return fmt.Sprintf("Effect(%d)", int8(e))
	}
	return effects[e]
}

// MarshalText writes the effect as the word that String gives.
func (e Effect) MarshalText() ([]byte, error) {
	if e < 0 || int(e) >= len(effects) {
		return nil, fmt.Errorf("approval: no such effect: %d", int8(e))
	}
	return []byte(effects[e]), nil
}

// UnmarshalText reads the words that String gives, and no others.
func (e *Effect) UnmarshalText(b []byte) error {
	for i, word := range effects {
		if word == string(b) {
			*e = Effect(i)
			return nil
		}
	}
	return fmt.Errorf("approval: no such effect: %q (deny, ask or allow)", b)
}
