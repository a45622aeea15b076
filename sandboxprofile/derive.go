package sandboxprofile

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Needs describes what a tool needs, according to the configuration and one call. It is the
// only input of Derive.
type Needs struct {
	// Roots are the configured directories, absolute, clean, links resolved.
	Roots []Root
	// Presets are toolchain grants; they only ever read and execute.
	Presets []Preset
	// Home is where the private HOME lies inside the sandbox. It may be the path
	// of the user's own home, which then is not visible but for what roots and
	// presets name.
	Home string
	// UserHome is the user's real home, which "~/" in a preset stands for; empty
	// means that it is Home. When both are, such grants are left out.
	UserHome string
	Protect  []string
	Hide     []string
	Network  Network
	Env      Env
	Limits   Limits

	UnixSockets []string
	Syscalls    []string // groups of package seccomp
	Fresh       bool
}

// A Root is one directory of `sandbox.paths`.
type Root struct {
	Name  string
	Path  string
	Write bool
}

// A Preset is a shipped read-only grant: what a toolchain reads, and why.
type Preset struct {
	Name   string
	Reason string
	Grants []Grant
}

// A Grant is one line of a preset. A path that the host does not have grants nothing.
type Grant struct {
	Path   string // absolute; a leading "~/" is the user's real home
	Rights Rights
	Reason string
}

// Derive computes the profile that grants n and nothing else.
//
//   - A root gives read and execute, and write if it asks for it. The innermost
//     root wins, so a read-only root inside a writable one stays read-only; of
//     two roots at one path the stricter wins.
//   - A preset adds read and execute to what the roots give at its paths. It
//     never adds write and never takes anything away.
//   - /tmp, /var/tmp and Home are scratch directories, unless a root is that
//     very directory: then the configuration asks for the host's by name. A preset cannot
//     do that: a grant at the very path of a scratch directory gives nothing.
//
// The result is normalised.
func Derive(n Needs) Profile {
	p := Profile{
		Paths:       rootPaths(n.Roots),
		Scratch:     scratch(n),
		Protect:     n.Protect,
		Hide:        n.Hide,
		Network:     n.Network,
		UnixSockets: n.UnixSockets,
		Syscalls:    n.Syscalls,
		Env:         n.Env,
		Limits:      n.Limits,
		Fresh:       n.Fresh,
	}
	p.addPresets(n.Presets, cmp.Or(n.UserHome, n.Home))
	return p.Normalize()
}

func rootPaths(roots []Root) map[string]Rights {
	paths := make(map[string]Rights, len(roots))
	for _, r := range roots {
		rights := Read | Execute
		if r.Write {
			rights |= Write
		}
		if have, ok := paths[r.Path]; ok {
			rights &= have
		}
		paths[r.Path] = rights
	}
	return paths
}

func scratch(n Needs) []string {
	dirs := []string{"/tmp", "/var/tmp"}
	if n.Home != "" {
		dirs = append(dirs, n.Home)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(n.Roots, func(r Root) bool { return r.Path == dir })
	})
}

// addPresets looks every grant up before it adds any, so that the order of
// presets does not matter.
func (p *Profile) addPresets(presets []Preset, userHome string) {
	grants := make(map[string]Rights)
	for _, preset := range presets {
		for _, g := range preset.Grants {
			if k, ok := expandHome(g.Path, userHome); ok {
				grants[k] |= g.Rights & (Read | Execute)
			}
		}
	}
	added := make(map[string]Rights, len(grants))
	for k := range grants {
		added[k] = p.granted(k) | inherited(grants, k)
	}
	maps.Copy(p.Paths, added)
}

// inherited is the union of the grants at k and above it.
func inherited(grants map[string]Rights, k string) Rights {
	r := grants[k]
	for k != "/" && k != "." {
		k = path.Dir(k)
		r |= grants[k]
	}
	return r
}

func expandHome(name, home string) (string, bool) {
	rest, tilde := strings.CutPrefix(name, "~/")
	if !tilde {
		return path.Clean(name), path.IsAbs(name)
	}
	return path.Join(home, rest), home != ""
}
