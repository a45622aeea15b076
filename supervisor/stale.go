package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
)

// stale says what on the disk is no longer what this supervisor was started from. It
// goes on with what it has read: a file that changes under it must not change what is
// allowed.
func (s *Supervisor) stale() (list []string) {
	for _, source := range s.cfg.Sources {
		switch digest, err := fileDigest(source.File); {
		case err != nil:
			list = append(list, fmt.Sprintf("%s cannot be read any more (%v): what it said at the start holds until `sandgate serve` starts again", source.File, err))
		case digest != source.Digest:
			list = append(list, source.File+" has changed: what it said at the start holds until `sandgate serve` starts again")
		}
	}
	if replaced() {
		list = append(list, "the program was replaced: this is the one from before, until `sandgate serve` starts again")
	}
	return list
}

// maxSource is more than a configuration may have, in bytes.
const maxSource = 16 << 20

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxSource)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// replaced reports whether the file of this program is gone, as after an update. Only
// Linux says so (proc_pid_exe(5)).
func replaced() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	path, err := os.Readlink("/proc/self/exe")
	return err == nil && strings.HasSuffix(path, " (deleted)")
}

func sourcesOf(list []config.Source) (out []protocol.ConfigSource) {
	for _, s := range list {
		out = append(out, protocol.ConfigSource{Tier: string(s.Tier), File: s.File, Digest: s.Digest, Trusted: s.Trusted})
	}
	return out
}
