package bounds

import (
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// Profiles keeps what is computed of the profiles of calls. A supervisor sees a few
// of them all the time.
type Profiles struct {
	under *sandboxprofile.Memo[*sandboxprofile.Memo[sandboxprofile.Profile]] // by the operator's
	of    *sandboxprofile.Memo[KnownProfile]
}

// A KnownProfile is the profile as a call and its entries name it.
type KnownProfile struct {
	Digest   string
	Json     []byte
	Warnings []string
}

func NewProfiles() Profiles {
	return Profiles{
		under: sandboxprofile.NewMemo(func(operator sandboxprofile.Profile) *sandboxprofile.Memo[sandboxprofile.Profile] {
			return sandboxprofile.NewMemo(func(p sandboxprofile.Profile) sandboxprofile.Profile { return sandboxprofile.Intersect(p, operator) })
		}),
		of: sandboxprofile.NewMemo(func(p sandboxprofile.Profile) KnownProfile {
			b, err := json.Marshal(p)
			if err != nil {
				panic(fmt.Sprintf("supervisor: bug: a profile does not marshal: %v", err))
			}
			return KnownProfile{Digest: p.Digest(), Json: b, Warnings: sandboxprofile.Warnings(p)}
		}),
	}
}

// Bounded is what a tool's profile and the operator's both allow. It is shared.
func (p Profiles) Bounded(tool, operator sandboxprofile.Profile) sandboxprofile.Profile {
	return p.under.Of(operator).Of(tool)
}

func (p Profiles) Known(profile sandboxprofile.Profile) KnownProfile { return p.of.Of(profile) }
