package sandboxprofile

import "slices"

// NameFiles say how the names of hosts are looked up.
func NameFiles() []string { return []string{"/etc/hosts", "/etc/resolv.conf"} }

// OwnNames are those of NameFiles that a sandbox for p has of its own, and not the
// host's: those in which the sandbox's own host name stands and, where only listed hosts
// are reached, those of name servers that it cannot reach and hosts that it is not to
// learn. It has them where p shows them; f.Kinds has to say what they are. Inside a
// granted tree only a plain file can be covered, and only where it cannot be exchanged.
func (p Profile) OwnNames(f Facts) []string {
	files := NameFiles()
	switch p.Network.Mode {
	case NetworkHost:
		return nil
	case NetworkNone:
		files = files[:1]
	}
	return slices.DeleteFunc(files, func(name string) bool {
		around, kind := p.around(name), f.Kinds[name]
		inTree := around != 0
		switch {
		case p.Rights(name)&Read == 0 || kind == Dir || kind == Other:
			return true
		case inTree:
			return kind != File || around&Write != 0
		}
		return false
	})
}
