package sandboxprofile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// exposures goes through every axis. The order is the one in which people ask:
// what can leave, what can be read, what can be changed, what it can use up.
func exposures(p Profile) []Exposure {
	list := []Exposure{
		networkExposure(p.Network),
		inwardExposure(p.Network),
		setExposure("services behind Unix sockets", p.UnixSockets, "unix_sockets: none in the operator's profile"),
		otherFilesExposure(p),
		patternExposure("files with secrets", readsProjects(p), p.Hide, "hidden", "sandbox.hide: [default]"),
		environmentExposure(p.Env),
		writesExposure(p),
		systemWritesExposure(p),
		patternExposure("hooks and start-up files", grantsWrite(p), p.Protect, "write-protected", "sandbox.protect: [default]"),
		ownProgramsExposure(p),
		sharingExposure(p),
		setExposure("devices", p.Devices, "devices: none in the operator's profile"),
		setExposure("dangerous system calls", p.Syscalls, "syscalls: none in the operator's profile"),
	}
	for _, l := range p.Limits.table() {
		list = append(list, limitExposure(l))
	}
	return list
}

func closed(name, why string) Exposure { return Exposure{Name: name, Why: why} }

func exposed(name, why, close string) Exposure {
	return Exposure{Name: name, Exposed: true, Why: why, Close: close}
}

func networkExposure(n Network) Exposure {
	const name = "data leaving over the network"
	switch n.Mode {
	case NetworkNone:
		return closed(name, "it has its own network with only loopback")
	case NetworkProxied:
		return exposed(name, "it can send what it can read to: "+strings.Join(n.lists(), "; of these "), "shell.network: none")
	}
	return exposed(name, "it uses the machine's network: every host, and every service on this machine and its local network", "shell.network: none, or a list of hosts")
}

// inwardExposure is about who can come in. What a browser loads from there is the
// tool's own word, with the browser's network.
func inwardExposure(n Network) Exposure {
	const name = "connections from this machine"
	switch {
	case n.Mode == NetworkHost:
		return exposed(name, "its listening ports are on the machine's network", "shell.network: none, with a list under expose")
	case len(n.Expose) == 0:
		return closed(name, "no port of the sandbox is reachable from outside")
	}
	return exposed(name, "every program of this user, including browsers, can connect to "+strings.Join(n.exposeText(), ", ")+"; pages that a browser loads from there use the browser's network", "shell.network.expose: []")
}

func setExposure(name string, set []string, close string) Exposure {
	if len(set) == 0 {
		return closed(name, "none granted")
	}
	return exposed(name, "granted: "+setText(set), close)
}

// otherFilesExposure is about files that the configuration does not list for the tool.
func otherFilesExposure(p Profile) Exposure {
	const name = "other files of the user"
	for _, k := range p.Keys() {
		if p.granted(k)&Read != 0 && (k == "/" || k == "/home" || k == "/Users" || isHome(k)) {
			return exposed(name, k+" can be read, except what is hidden by name", "list the directories that the tool needs under sandbox.paths")
		}
	}
	return closed(name, "paths that the profile does not list do not exist in the sandbox")
}

// readsProjects reports whether anything outside of the system can be read.
func readsProjects(p Profile) bool {
	return slices.ContainsFunc(p.Keys(), func(k string) bool { return p.granted(k)&Read != 0 && !IsSystemTree(k) })
}

func patternExposure(name string, concerned bool, patterns []string, how, close string) Exposure {
	switch {
	case !concerned:
		return closed(name, "the directories where they would be are not granted")
	case len(patterns) == 0:
		return exposed(name, "nothing is "+how+" by name", close)
	}
	return closed(name, fmt.Sprintf("%d names are %s at any depth; others are not", len(patterns), how))
}

func environmentExposure(e Env) Exposure {
	const name = "secrets in the environment"
	if e.All {
		return exposed(name, "every variable is passed", "sandbox.env.allow: a list")
	}
	secret := regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE|_KEY$|^KEY$)`)
	if bad := slices.DeleteFunc(slices.Clone(e.Names), func(n string) bool { return !secret.MatchString(n) }); len(bad) > 0 {
		return exposed(name, strings.Join(bad, ", ")+" by its name", "remove it from sandbox.env.allow")
	}
	return closed(name, fmt.Sprintf("%d variables are passed by name", len(e.Names)))
}

func writesExposure(p Profile) Exposure {
	const name = "files that you run or trust later"
	var dirs []string
	for _, k := range p.Keys() {
		if p.granted(k)&Write != 0 && p.around(k)&Write == 0 {
			dirs = append(dirs, k)
		}
	}
	if len(dirs) == 0 {
		return closed(name, "nothing on the machine can be changed")
	}
	return exposed(name, "it can change files in "+strings.Join(dirs, ", ")+"; review before you run it", "mode: ro, or the profile read-only")
}

func systemWritesExposure(p Profile) Exposure {
	const name = "programs and settings of the system"
	for _, k := range p.Keys() {
		if p.granted(k)&Write != 0 && (k == "/" || IsSystemTree(k)) {
			return exposed(name, k+" can be changed", "mode: ro")
		}
	}
	return closed(name, "read-only or not visible")
}

func ownProgramsExposure(p Profile) Exposure {
	const name = "programs that it creates"
	both := func(k string) bool { return p.granted(k)&(Write|Execute) == Write|Execute }
	if len(p.Scratch) == 0 && !slices.ContainsFunc(p.Keys(), both) {
		return closed(name, "it cannot run what it can write")
	}
	return exposed(name, "it can run what it writes, under the same profile", "")
}

func sharingExposure(p Profile) Exposure {
	const name = "one call preparing the next"
	if p.Fresh {
		return closed(name, "each call has its own sandbox")
	}
	return exposed(name, "calls of one session share /tmp", "fresh: true, or the profile hardened")
}

func limitExposure(l limit) Exposure {
	name := "use of " + map[string]string{
		"wall": "time", "cpu": "the processor", "memory": "memory", "pids": "processes", "file_size": "disk by one file",
		"open_files": "descriptors", "output": "output", "scratch": "memory by private directories",
	}[l.name]
	if l.value == Unlimited {
		return exposed(name, "not limited", "a limit: "+l.name)
	}
	return closed(name, l.text())
}
