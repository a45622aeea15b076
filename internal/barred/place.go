//go:build linux && cgo

// Package barred puts a process into places that bar what sandboxes are usually
// built from: a plain container, and hosts without user namespaces. It is for
// tests, and for people who want to see what sandgate does there.
//
// A place is made of the kernel's own means (a system call filter, capability sets,
// no_new_privs, mounts), so what runs in it meets the same refusals as in the real
// one, by the same errno. Docker's filter is Docker's own, from the module that it
// is kept in. What a place does not have is an image: files are those of this
// machine.
package barred

import (
	"fmt"
	"strings"
)

// A Place says what a process gets, and above all what it does not get.
type Place struct {
	Name string // as Find takes it
	Says string // one line for people

	// UID is the user that the process runs as, with the group of the same number.
	// Only root can become another user; who is not root stays who it is, and gets
	// no capabilities, no_new_privs and an unmasked /proc.
	UID int
	// Filters are laid on the process one after another.
	Filters []Filter
	// Capabilities stay in the bounding set, and root has them. An ordinary user
	// never has any.
	Capabilities []string
	// MayGainPrivileges leaves no_new_privs off.
	MayGainPrivileges bool
	// Masked covers in /proc and /sys what Docker covers, and has a /dev/shm of Docker's
	// size (64 MiB).
	Masked bool
	// ReadOnly makes every mount read-only but /proc, /dev and those at WritableEnv,
	// as a container with a read-only image and one volume.
	ReadOnly bool
}

// NeedsRoot reports whether only root can make this place.
func (p Place) NeedsRoot() bool { return p.ReadOnly || len(p.Filters) == 0 }

// WritableEnv names the directories, separated by colons, that stay writable in a
// place that is ReadOnly.
const WritableEnv = "BARRED_WRITABLE"

// A Filter is one system call filter.
type Filter int

const (
	// Docker is the default filter of Docker for the capabilities of the place.
	Docker Filter = iota
	// NoPeeking refuses process_vm_readv and process_vm_writev, which Docker's
	// filter did until 2020, and still does on kernels before 4.8.
	NoPeeking
	// NoUserNamespaces answers as user.max_user_namespaces=0 does.
	NoUserNamespaces
	// NoJoining refuses a new session keyring, and nothing else about keys.
	NoJoining
	// NoMounts answers mounts as AppArmor does in Ubuntu's user namespaces and in
	// Docker's containers.
	NoMounts
)

// dockerCapabilities are those of a container's root by default: moby,
// daemon/pkg/oci/caps/defaults.go.
var dockerCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

const ordinary = 1000

// Places lists all of them, the most barred first.
func Places() []Place {
	return []Place{
		{Name: "restricted", Says: "Docker with --user 1000 --cap-drop ALL --security-opt no-new-privileges, as Kubernetes' restricted standard asks",
			UID: ordinary, Filters: []Filter{Docker}, Masked: true},
		{Name: "read-only", Says: "restricted, and with --read-only",
			UID: ordinary, Filters: []Filter{Docker}, Masked: true, ReadOnly: true},
		{Name: "bare-root", Says: "Docker as root with --cap-drop ALL --security-opt no-new-privileges",
			Filters: []Filter{Docker}, Masked: true},
		{Name: "docker", Says: "Docker without an option",
			Filters: []Filter{Docker}, Capabilities: dockerCapabilities, MayGainPrivileges: true, Masked: true},
		{Name: "old-docker", Says: "Docker before its filter allowed process_vm_readv",
			Filters: []Filter{Docker, NoPeeking}, Capabilities: dockerCapabilities, MayGainPrivileges: true, Masked: true},
		{Name: "old-docker-user", Says: "the same with --user 1000",
			UID: ordinary, Filters: []Filter{Docker, NoPeeking}, MayGainPrivileges: true, Masked: true},
		{Name: "nested", Says: "Docker in Docker: each with its filter",
			Filters: []Filter{Docker, Docker}, Capabilities: dockerCapabilities, MayGainPrivileges: true, Masked: true},
		{Name: "no-userns", Says: "a host with user.max_user_namespaces=0, as an ordinary user",
			UID: ordinary, Filters: []Filter{NoUserNamespaces}, MayGainPrivileges: true},
		{Name: "no-mounts", Says: "a host whose user namespaces give nothing (AppArmor on Ubuntu), as an ordinary user",
			UID: ordinary, Filters: []Filter{NoMounts}, MayGainPrivileges: true},
		{Name: "half-keys", Says: "no real place: an ordinary user whom a filter lets use keys, but not leave those of the session",
			UID: ordinary, Filters: []Filter{NoJoining, NoUserNamespaces}},
		{Name: "masked", Says: "Docker with --privileged but a masked /proc: namespaces can be made, a /proc cannot",
			Capabilities: all, MayGainPrivileges: true, Masked: true},
	}
}

// all stands for every capability of the kernel.
var all = []string{"ALL"}

// Find gives the place with this name.
func Find(name string) (Place, error) {
	var names []string
	for _, p := range Places() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Place{}, fmt.Errorf("no place is named %q; there are %s", name, strings.Join(names, ", "))
}
