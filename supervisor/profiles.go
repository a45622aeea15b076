package supervisor

import (
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// profiles keeps what is computed of the profiles of calls. A supervisor sees a few
// of them all the time.
type profiles struct {
	under *sandboxprofile.Memo[*sandboxprofile.Memo[sandboxprofile.Profile]] // by the operator's
	of    *sandboxprofile.Memo[knownProfile]
}

// A knownProfile is what a call and its entries say of its profile.
type knownProfile struct {
	digest   string
	json     []byte
	warnings []string
}

func newProfiles() profiles {
	return profiles{
		under: sandboxprofile.NewMemo(func(operator sandboxprofile.Profile) *sandboxprofile.Memo[sandboxprofile.Profile] {
			return sandboxprofile.NewMemo(func(p sandboxprofile.Profile) sandboxprofile.Profile { return sandboxprofile.Intersect(p, operator) })
		}),
		of: sandboxprofile.NewMemo(func(p sandboxprofile.Profile) knownProfile {
			b, err := json.Marshal(p)
			if err != nil {
				panic(fmt.Sprintf("supervisor: bug: a profile does not marshal: %v", err))
			}
			return knownProfile{digest: p.Digest(), json: b, warnings: sandboxprofile.Warnings(p)}
		}),
	}
}

// bounded is what a tool's profile and the operator's both allow. It is shared.
func (p profiles) bounded(tool, operator sandboxprofile.Profile) sandboxprofile.Profile {
	return p.under.Of(operator).Of(tool)
}

func (p profiles) known(profile sandboxprofile.Profile) knownProfile { return p.of.Of(profile) }

// digests is plan.Digest, and what is known of the plan's profile.
func (s *Supervisor) digests(plan tools.Plan) (knownProfile, string) {
	profile := s.profiles.known(plan.Profile)
	return profile, plan.DigestWith(profile.json)
}

// digestOf is plan.Digest.
func (s *Supervisor) digestOf(plan tools.Plan) string {
	_, digest := s.digests(plan)
	return digest
}
