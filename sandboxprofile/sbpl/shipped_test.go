package sbpl_test

import (
	"testing"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/profiles"
	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
)

// TestShippedPatternsKeepTheirExamples: each shipped pattern covers in the text
// what its examples say, and not what they say it does not.
func TestShippedPatternsKeepTheirExamples(t *testing.T) {
	everything := map[string]sp.Rights{"/": rwx}
	for _, list := range []struct {
		patterns []profiles.Pattern
		profile  func(pattern string) sp.Profile
		covered  sp.Rights
	}{
		{profiles.ProtectPatterns(), func(s string) sp.Profile { return sp.Profile{Paths: everything, Protect: []string{s}} }, rx},
		{profiles.HidePatterns(), func(s string) sp.Profile { return sp.Profile{Paths: everything, Hide: []string{s}} }, 0},
	} {
		for _, p := range list.patterns {
			pol := policy(t, list.profile(p.Pattern), sp.Facts{})
			for _, name := range p.Match {
				if got := pol.Rights(sbpl.Resolve(name)); got != list.covered {
					t.Errorf("%s: %s has %v", p.Pattern, name, got)
				}
			}
			for _, name := range p.NoMatch {
				if got := pol.Rights(sbpl.Resolve(name)); got != rwx {
					t.Errorf("%s: %s, which it is not to cover, has %v", p.Pattern, name, got)
				}
			}
		}
	}
}

// TestShippedProfilesCompile: each shipped operator profile has a text that can
// be read, and that lets a workspace be what the profile says.
func TestShippedProfilesCompile(t *testing.T) {
	for _, name := range profiles.OperatorNames() {
		p, err := config.Operator(name, map[string]string{"workspace": "/Users/u/p"})
		if err != nil {
			t.Fatal(err)
		}
		pol := policy(t, p, sp.Facts{})
		for _, file := range []string{"/Users/u/p/main.go", "/Users/u/p/.git/hooks/pre-commit", "/Users/u/p/.env", "/Users/u/notes", "/usr/bin/true"} {
			if err := disagreement(p, pol, file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
