package sandboxprofile

import (
	"fmt"
	"slices"
	"strings"
)

// Warnings has one sentence for each thing in which p is looser than the
// default: private home and temporary directories, writable project directories
// only, no network, no devices, no sockets, a full system call filter, limits.
// The prompt, doctor, `profile show` and the audit log print the same sentences.
func Warnings(p Profile) []string {
	p = p.Normalize()
	var w []string
	w = append(w, pathWarnings(p)...)
	w = append(w, networkWarnings(p.Network)...)
	w = append(w, setWarnings(p)...)
	if p.Env.All {
		w = append(w, "The whole environment is passed to programs, with every secret in it.")
	}
	return append(w, limitWarnings(p.Limits)...)
}

// sensitive are directories whose writing changes what the machine or the user
// runs later, outside of any sandbox.
var sensitive = []string{"/", "/boot", "/etc", "/home", "/lib", "/opt", "/root", "/usr", "/var"}

func pathWarnings(p Profile) []string {
	var w []string
	for _, k := range p.Keys() {
		switch r := p.Rights(k); {
		case r&Write != 0 && (slices.Contains(sensitive, k) || isHome(k)):
			w = append(w, fmt.Sprintf("%s is writable: programs that later run outside can be changed there.", k))
		case k == "/" && r&Read != 0:
			w = append(w, "The whole file system is readable, except what is hidden by name.")
		case isHome(k) && r&Read != 0:
			w = append(w, fmt.Sprintf("The home directory %s is readable, except what is hidden by name.", k))
		}
	}
	if grantsWrite(p) && len(p.Protect) == 0 {
		w = append(w, "No protected patterns: hooks and start-up files in writable directories can be changed.")
	}
	if len(p.Paths) > 0 && len(p.Hide) == 0 {
		w = append(w, "No hidden patterns: key files and .env files in readable directories can be read.")
	}
	return w
}

// isHome reports whether k looks like a person's home directory.
func isHome(k string) bool {
	c := components(k)
	switch {
	case k == "/root":
		return true
	case len(c) == 2 && (c[0] == "home" || c[0] == "Users"):
		return true
	}
	return false
}

func grantsWrite(p Profile) bool {
	for _, r := range p.Paths {
		if r&Write != 0 {
			return true
		}
	}
	return false
}

func networkWarnings(n Network) []string { return append(reachWarnings(n), exposeWarnings(n)...) }

func exposeWarnings(n Network) []string {
	if len(n.Expose) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Programs of this user, including browsers, can connect to servers in the sandbox: %s.", strings.Join(n.exposeText(), ", "))}
}

func reachWarnings(n Network) []string {
	switch n.Mode {
	case NetworkNone:
		return nil
	case NetworkProxied:
		hosts := slices.Concat(n.Allow...)
		if slices.Contains(hosts, All) {
			return []string{"Programs can reach every host through the egress proxy; data can leave the machine."}
		}
		// A service that sandgate itself provides is not a way out of the
		// machine.
		own := func(rule string) bool { return strings.Contains(rule, "=sandgate:") }
		if len(hosts) > 0 && !slices.ContainsFunc(hosts, func(rule string) bool { return !own(rule) }) {
			return []string{"Programs can ask sandgate to sign commits and tags with the operator's key."}
		}
		w := []string{fmt.Sprintf("Programs can reach these hosts and send data to them: %s.", strings.Join(sortedSet(hosts), ", "))}
		if len(n.Terminated) > 0 {
			w = append(w, fmt.Sprintf("sandgate terminates TLS to %s, reads the traffic and inserts credentials: requests there have the operator's rights.", strings.Join(n.Terminated, ", ")))
		}
		return w
	}
	return []string{"Programs use the host's network without isolation: they can reach every service that this machine can reach, including its own."}
}

func setWarnings(p Profile) []string {
	var w []string
	for _, s := range p.UnixSockets {
		w = append(w, fmt.Sprintf("Programs can use the service behind the Unix socket %s with the user's rights.", orEvery(s, "(every one)")))
	}
	for _, d := range p.Devices {
		w = append(w, fmt.Sprintf("Programs can use the device %s.", orEvery(d, "(every one)")))
	}
	for _, g := range p.Syscalls {
		w = append(w, fmt.Sprintf("The system call filter allows the group %s.", orEvery(g, "(every one)")))
	}
	return w
}

func orEvery(s, every string) string {
	if s == All {
		return every
	}
	return s
}

func limitWarnings(l Limits) []string {
	var w []string
	for _, e := range l.table() {
		if e.value == Unlimited {
			w = append(w, fmt.Sprintf("No limit on %s.", strings.ReplaceAll(e.name, "_", " ")))
		}
	}
	return w
}
