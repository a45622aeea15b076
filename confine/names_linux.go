package confine

import (
	"os"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// nameFile is what a sandbox with an allow-list of hosts has in a file of
// sandboxprofile.NameFiles. Names are asked for on its own loopback, where the
// supervisor answers; no search domain is added to them.
var nameFile = map[string]string{
	"/etc/hosts": "127.0.0.1 localhost " + Hostname + "\n" +
		"::1 localhost ip6-localhost ip6-loopback\n",
	"/etc/resolv.conf": "# The supervisor of this sandbox answers, for the hosts that may be reached.\n" +
		"nameserver 127.0.0.1\n",
}

// nameFiles are the descriptors that args reads its own files from, if any.
func nameFiles(args []string) ([]*os.File, error) {
	if !slices.Contains(args, "--ro-bind-data") {
		return nil, nil
	}
	var files []*os.File
	for _, name := range sandboxprofile.NameFiles() {
		f, err := memfile.New("names", strings.NewReader(nameFile[name]))
		if err != nil {
			closeFiles(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
