package learn

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sandgate/sandgate/assemble"
)

// Bounds of the search for secrets before something is proposed. What is beyond is not proposed.
const (
	maxSearched      = 16 << 20 // bytes of a file, or of all files of a directory
	maxSearchedNames = 5000
	searchWindow     = 1 << 20
	searchOverlap    = 4 << 10 // of windows: a secret may lie across their edge
)

// secretAt says why a file or directory is not proposed: something in it looks like a secret, or not all of
// it could be looked at; "" if it may be. What is hidden is hidden from the command too.
func secretAt(path string, hidden func(path string) bool) string {
	left, names, why := int64(maxSearched), 0, ""
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if names++; err != nil || names > maxSearchedNames {
			why = "not all of it can be searched for secrets"
			return fs.SkipAll
		}
		switch {
		case name != path && hidden(name):
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir() && (e.Type().IsRegular() || name == path):
			found, err := fileLooksSecret(name, &left)
			switch {
			case errors.Is(err, errTooMuch):
				why = fmt.Sprintf("not all of it can be searched for secrets: it is larger than %d MiB", maxSearched>>20)
			case err != nil || found:
				why = "it seems to contain a secret"
				if name != path {
					why = name + " in it seems to contain a secret"
				}
			}
		}
		if why != "" {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return "not all of it can be searched for secrets"
	}
	return why
}

var errTooMuch = errors.New("more than can be searched")

// fileLooksSecret reads all of a file. One that cannot be read is not shown either.
func fileLooksSecret(path string, left *int64) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return true, err
	}
	if *left -= st.Size(); *left < 0 {
		return false, errTooMuch
	}
	window, kept := make([]byte, searchWindow), 0
	for first := true; ; first = false {
		n, err := io.ReadFull(file, window[kept:])
		text := window[:kept+n]
		if first && isKey(text) || looksSecret(text) {
			return true, nil
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return false, err
		}
		kept = copy(window, text[len(text)-searchOverlap:])
	}
}

// looksSecret takes the bytes of a binary file, or of a text of two bytes a character, for text as well.
func looksSecret(b []byte) bool {
	b = bytes.ReplaceAll(bytes.ToValidUTF8(b, []byte{' '}), []byte("\ufeff"), []byte{' '}) // what is none would seem to be redacted
	if bytes.IndexByte(b, 0) < 0 {
		return textLooksSecret(string(b))
	}
	return textLooksSecret(string(bytes.ReplaceAll(b, []byte{0}, nil))) ||
		textLooksSecret(string(bytes.ReplaceAll(b, []byte{0}, []byte{'\n'})))
}

// textLooksSecret also reports a token in a comment, and knows private keys in the formats of programs.
func textLooksSecret(text string) bool {
	return assemble.LooksSecret(text) || assemble.HoldsToken(text) || privateKey().MatchString(text) || account().MatchString(text) ||
		slices.ContainsFunc(keySetting().FindAllStringSubmatch(text, -1), func(m []string) bool { return strings.ContainsAny(m[1], "0123456789") }) ||
		slices.ContainsFunc(encodedPEM().FindAllString(text, -1), func(begin string) bool {
			b, _ := base64.RawStdEncoding.DecodeString(begin[:len(begin)/4*4])
			return bytes.Contains(b, []byte("PRIVATE"))
		})
}

var (
	// privateKey is of WireGuard, age, GnuPG, PuTTY, and a JSON web key.
	privateKey = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:PrivateKey|PresharedKey)[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=` +
			`|AGE-SECRET-KEY-1[0-9A-Z]{20}` +
			`|\((?:[0-9]+:)?(?:protected-)?private-key[ \n\r(]` +
			`|\((?:11:private-key|21:protected-private-key)` +
			`|PuTTY-User-Key-File-[0-9]+:` +
			`|"d"[ \t\r\n]*:[ \t\r\n]*"[A-Za-z0-9_-]{40}`)
	})
	// keySetting is a value of a key, or of a password by a short name. One without a digit is a word: the name of a
	// column, the type of a field.
	keySetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?im)^[ \t"'{,-]*(?:export[ \t]+)?(?:[\w.-]*(?:secret|signing|encryption|private|session|master|shared|account|storage)[_-]?key|(?:[\w.-]*[_.-])?(?:pass|pwd))["']?\s*[:=]\s*["']?([^\s"'$<>{}()\[\],;/][^\s"'$<>{}()\[\],;]{5,})`)
	})
	// account is of wireless networks, second factors, lists of accounts with their hashes (crypt(5)), and PostgreSQL's
	// list of passwords.
	account = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*psk[ \t]*=[ \t]*\S` +
			`|otpauth://[^\s"']*[?&]secret=[A-Za-z2-7]{8}` +
			`|^[^:\s]+:!?\$[0-9a-z-]{1,10}\$[./0-9A-Za-z$=,]{8}` +
			`|^[^:\s#]+:(?:[0-9]+|\*):[^:\s]+:[^:\s]+:[^:\s]{6,}$`)
	})
	// encodedPEM is base64 of "-----BEGIN ", as the files of kubectl have it.
	encodedPEM = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/]{10,50}`) })
)

// isKey reports whether a file is a private key or holds some, in a format that is not text: stores of Java
// and KeePass; DER of keys (PKCS #1 and #8, SEC 1) and PKCS #12 begin with a version, and certificates do
// not.
func isKey(b []byte) bool {
	for _, magic := range []string{"\xfe\xed\xfe\xed", "\xce\xce\xce\xce", "\x03\xd9\xa2\x9a"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return true
		}
	}
	if len(b) < 16 || b[0] != 0x30 {
		return false
	}
	head := 2
	if b[1] > 0x80 && b[1] <= 0x84 {
		head += int(b[1] & 0x7f)
	}
	version := bytes.HasPrefix(b[head:], []byte{2, 1}) && b[head+2] <= 3
	encrypted := bytes.Contains(b[head:min(len(b), 64)], []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5}) // PKCS #5
	return version || encrypted
}
