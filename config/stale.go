package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Stale lists the files that have changed since a supervisor started from them. The supervisor
// keeps what it has read: a file that changes must not change what is allowed.
func Stale(sources []Source) (list []string) {
	for _, source := range sources {
		switch digest, err := fileDigest(source.File); {
		case err != nil:
			list = append(list, fmt.Sprintf("%s can no longer be read (%v): its content at the start applies until `sandgate serve` restarts", source.File, err))
		case digest != source.Digest:
			list = append(list, source.File+" has changed: its content at the start applies until `sandgate serve` restarts")
		}
	}
	if updated() {
		list = append(list, "the sandgate program was replaced: the old one runs until `sandgate serve` restarts")
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

// updated reports whether the file of this program is gone, as after an update. Only
// Linux says so (proc_pid_exe(5)).
func updated() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	path, err := os.Readlink("/proc/self/exe")
	return err == nil && strings.HasSuffix(path, " (deleted)")
}
