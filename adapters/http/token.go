package httpgate

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/ownfile"
)

// tokenBytes are the random bytes of a token, a cookie and a key.
const tokenBytes = 32

// newSecret makes a secret that cannot be guessed.
func newSecret() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return hex.EncodeToString(b)
}

// newWord is shorter, for what stands in an address and lives for minutes: 26 characters,
// of which a name of a host may be made.
func newWord() string { return strings.ToLower(rand.Text()) }

// A TokenError says why the file with the token cannot be used.
type TokenError struct {
	Path string
	Err  error
}

func (e *TokenError) Error() string { return fmt.Sprintf("the token file %q: %v", e.Path, e.Err) }
func (e *TokenError) Unwrap() error { return e.Err }

// Hint tells a person how to fix it.
func (e *TokenError) Hint() string {
	return "it must be a file of this user with mode 0600; remove it, and the next start creates a new one"
}

// Token reads the token from a file that only this user can read, and makes file and
// token if they are not there.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeToken(path); err == nil {
			token, err = readToken(path) // of two first starts, both have what the last one wrote
		}
	}
	if err != nil {
		return "", &TokenError{path, err}
	}
	return token, nil
}

func makeToken(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := ownfile.CheckDir(dir); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, []byte(newSecret()+"\n"), 0o600)
}

// readToken follows no link and does not wait for a pipe: a user who can put one there
// must not choose the value that secrets are compared with.
func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := ownfile.Check(f, 0o077); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if raw, err := hex.DecodeString(token); err != nil || len(raw) < tokenBytes {
		return "", fmt.Errorf("it does not contain a token of %d hexadecimal digits", 2*tokenBytes)
	}
	return token, nil
}
