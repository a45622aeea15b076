package bounds

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A Boundary is all that a program of a plan could reach: what a person who allows a call and
// has that remembered was shown. The same words are another call where they reach more.
type Boundary struct {
	Profile sandboxprofile.Profile `json:"profile"`
	// Secrets are given to the program, or put into its requests.
	Secrets []string `json:"secrets,omitempty"`
	// Tool is the tool of an MCP server as it was shown: its definition, and the program that the server
	// is. What a server offers under a name is another tool whenever it says so.
	Tool string `json:"tool,omitempty"`
}

// BoundaryOf leaves out what says how much a call may use, and the names of its variables.
func BoundaryOf(plan tools.Plan) Boundary {
	b := Boundary{Profile: plan.Profile}
	b.Profile.Env, b.Profile.Limits, b.Profile.Fresh = sandboxprofile.Env{All: true}, sandboxprofile.NoLimits(), false
	for _, s := range plan.Action.Exec.Secrets {
		b.Secrets = append(b.Secrets, fmt.Sprintf("%q of %q, to %q%q, seen: %v", s.Name, s.File, s.Service, s.Host, !s.Unseen()))
	}
	if plan.Kind == tools.ByServer {
		b.Tool = fmt.Sprintf("%s of %q in %q", plan.MCP.Definition, plan.Action.Exec.Argv, plan.Action.Exec.Dir)
	}
	return b
}

func (b Boundary) Text() string {
	b.Profile = b.Profile.Normalize()
	text, err := json.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("supervisor: bug: a boundary does not marshal: %v", err))
	}
	return string(text)
}

// Within reports whether b reaches no more than the boundary whose text is then.
func (b Boundary) Within(then string) bool {
	var was Boundary
	if err := json.Unmarshal([]byte(then), &was); err != nil {
		return false
	}
	shorter := func(list []string) bool { // than one that was there: fewer hosts
		return slices.ContainsFunc(b.Profile.Network.Allow, func(now []string) bool { return subset(now, list) })
	}
	if hosts := &was.Profile.Network; !slices.ContainsFunc(hosts.Allow, func(list []string) bool { return !shorter(list) }) {
		hosts.Allow = b.Profile.Network.Allow
	}
	return b.Tool == was.Tool && subset(b.Secrets, was.Secrets) && sandboxprofile.Within(b.Profile, was.Profile)
}

func subset(of, all []string) bool {
	return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(all, s) })
}
