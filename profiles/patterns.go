package profiles

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A Pattern is one entry of a shipped list.
type Pattern struct {
	Pattern string `yaml:"pattern"`
	Reason  string `yaml:"reason"`
	// Match and NoMatch are paths that the pattern has to cover, and must not.
	Match   []string `yaml:"match"`
	NoMatch []string `yaml:"no_match"`
}

// Protect is the default list of write-protected patterns.
func Protect() []string { return slices.Clone(shippedProtect) }

// Hide is the default list of unreadable patterns.
func Hide() []string { return slices.Clone(shippedHide) }

// ProtectPatterns is Protect with reasons and examples.
func ProtectPatterns() []Pattern { return mustPatterns("patterns/protect.yaml") }

// HidePatterns is Hide with reasons and examples.
func HidePatterns() []Pattern { return mustPatterns("patterns/hide.yaml") }

// mustPatterns reads an embedded list. That every one of them loads is tested.
func mustPatterns(file string) []Pattern {
	b, err := shipped.ReadFile(file)
	if err != nil {
		panic("profiles: bug: " + err.Error())
	}
	list, err := parsePatterns(file, b)
	if err != nil {
		panic("profiles: bug: " + err.Error())
	}
	return list
}

func parsePatterns(file string, b []byte) ([]Pattern, error) {
	var list []Pattern
	if err := decode(b, &list); err != nil {
		return nil, fmt.Errorf("profiles: %s: %w", file, err)
	}
	seen := make(map[string]bool)
	for _, p := range list {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("profiles: %s: %q: %w", file, p.Pattern, err)
		}
		if seen[p.Pattern] {
			return nil, fmt.Errorf("profiles: %s: %q is listed twice", file, p.Pattern)
		}
		seen[p.Pattern] = true
	}
	return list, nil
}

// decode reads a shipped file, with no unknown keys.
func decode(b []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	return d.Decode(v)
}

func (p Pattern) check() error {
	if err := sp.ParsePattern(p.Pattern); err != nil {
		return err
	}
	if p.Reason == "" || len(p.Match) == 0 || len(p.NoMatch) == 0 {
		return fmt.Errorf("needs a reason, match and no_match")
	}
	for _, m := range p.Match {
		if !sp.MatchPattern(p.Pattern, m) {
			return fmt.Errorf("does not match its example %q", m)
		}
	}
	for _, m := range p.NoMatch {
		if sp.MatchPattern(p.Pattern, m) {
			return fmt.Errorf("matches %q, which it must not", m)
		}
	}
	return nil
}
