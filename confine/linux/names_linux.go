package linux

import (
	"os"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// nameFile is a file of sandboxprofile.NameFiles, as a sandbox with an allow-list of
// hosts sees it. Names are asked for on its own loopback, where the supervisor answers;
// no search domain is added to them.
var nameFile = map[string]string{
	"/etc/hosts": "127.0.0.1 localhost " + confine.Hostname + "\n" +
		"::1 localhost ip6-localhost ip6-loopback\n",
	"/etc/resolv.conf": "# The supervisor of this sandbox answers, for the hosts that may be reached.\n" +
		"nameserver 127.0.0.1\n",
}

// hostsOf is /etc/hosts of a sandbox: with no network the machine's own, as loopback
// has further names there, and in every case a line for the sandbox's own host name, which
// programs look up to know their own address.
func hostsOf(p sandboxprofile.Profile) string {
	if p.Network.Mode == sandboxprofile.NetworkProxied {
		return nameFile["/etc/hosts"]
	}
	own := "127.0.1.1 " + confine.Hostname + "\n"
	host, err := os.ReadFile("/etc/hosts")
	if err != nil || len(host) > maxHosts {
		return nameFile["/etc/hosts"] // also where there is none
	}
	return strings.TrimSuffix(string(host), "\n") + "\n" + own
}

const maxHosts = 8 << 20 // such as lists against advertisements

// nameFiles are the descriptors that args reads its own files from, if any.
func nameFiles(args []string, p sandboxprofile.Profile) ([]*os.File, error) {
	if !slices.Contains(args, "--ro-bind-data") {
		return nil, nil
	}
	var files []*os.File
	for _, name := range sandboxprofile.NameFiles() {
		text := nameFile[name]
		if name == "/etc/hosts" {
			text = hostsOf(p)
		}
		f, err := memfile.New("names", strings.NewReader(text))
		if err != nil {
			closeFiles(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
