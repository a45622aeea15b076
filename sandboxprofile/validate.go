package sandboxprofile

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Validate says everything that is wrong with p, or nil. A profile that
// validates has absolute, clean paths, patterns that can match, and no limit
// that is zero or negative.
func (p Profile) Validate() error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(p.Paths)) {
		errs = append(errs, validatePath("paths", k), validateRights(k, p.Paths[k]))
	}
	for _, part := range []struct {
		name  string
		paths []string
	}{{"scratch", p.Scratch}, {"unix_sockets", p.UnixSockets}, {"devices", p.Devices}} {
		for _, k := range part.paths {
			if part.name == "scratch" || k != All {
				errs = append(errs, validatePath(part.name, k))
			}
		}
	}
	for _, pat := range slices.Concat(p.Protect, p.Hide) {
		errs = append(errs, ParsePattern(pat))
	}
	for _, d := range p.Devices {
		if d != All && (d == "/dev" || !Contains("/dev", d)) {
			errs = append(errs, fmt.Errorf("sandboxprofile: devices: %q is not below /dev", d))
		}
	}
	if slices.Contains(p.Scratch, "/") {
		errs = append(errs, errors.New("sandboxprofile: scratch: \"/\" would hide everything"))
	}
	errs = append(errs, p.Network.validate(), p.Env.validate())
	for _, l := range p.Limits.table() {
		if l.value <= 0 {
			errs = append(errs, fmt.Errorf("sandboxprofile: limits: %s is %d; it must be greater than zero", l.name, l.value))
		}
	}
	return errors.Join(errs...)
}

func validatePath(part, k string) error {
	switch {
	case !path.IsAbs(k):
		return fmt.Errorf("sandboxprofile: %s: %q is not absolute", part, k)
	case path.Clean(k) != k:
		return fmt.Errorf("sandboxprofile: %s: %q is not clean, want %q", part, k, path.Clean(k))
	case strings.ContainsRune(k, 0):
		return fmt.Errorf("sandboxprofile: %s: %q contains a NUL byte", part, k)
	}
	return nil
}

func validateRights(k string, r Rights) error {
	if !r.SubsetOf(allRights) {
		return fmt.Errorf("sandboxprofile: paths: %q: unknown rights %v", k, r)
	}
	return nil
}

func (n Network) validate() error {
	switch {
	case n.Mode > NetworkHost:
		return fmt.Errorf("sandboxprofile: network: unknown mode %v", n.Mode)
	case n.Mode == NetworkProxied && len(n.Allow) == 0:
		// No list at all would let every host through, which is easy to get by
		// forgetting it.
		return errors.New("sandboxprofile: network: proxied needs at least one list of hosts, if only [\"*\"]")
	case n.Mode != NetworkProxied && len(n.Allow) > 0:
		return fmt.Errorf("sandboxprofile: network: mode %v does not take a list of hosts", n.Mode)
	case n.Mode != NetworkProxied && len(n.Terminated) > 0:
		return fmt.Errorf("sandboxprofile: network: mode %v does not have a proxy that could terminate TLS", n.Mode)
	case slices.Contains(n.Terminated, ""):
		return errors.New("sandboxprofile: network: terminated: a host is empty")
	}
	return n.validateExpose()
}

func (e Env) validate() error {
	for _, n := range e.Names {
		if n == "" || strings.ContainsAny(n, "=\x00") {
			return fmt.Errorf("sandboxprofile: env: %q cannot be the name of a variable", n)
		}
	}
	return nil
}

type limit struct {
	name  string
	value int64
}

func (l Limits) table() []limit {
	return []limit{
		{"wall", int64(l.Wall)}, {"cpu", int64(l.CPU)},
		{"memory", l.Memory}, {"pids", l.Pids}, {"file_size", l.FileSize},
		{"open_files", l.OpenFiles}, {"output", l.Output}, {"scratch", l.Scratch},
	}
}
