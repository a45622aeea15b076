package httpgate

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
)

func answerAllow() approval.Answer { return approval.Answer{Allow: true, Approver: "test"} }

// TestTokenIsOfThisUserAlone: it is made once, for nobody else's eyes, and a file that
// somebody else could have made or read is none.
func TestTokenIsOfThisUserAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state", "http-token")
	first, err := Token(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its directory: %v %v", info.Mode(), err)
	}
	if again, err := Token(path); err != nil || again != first || len(first) != 2*tokenBytes {
		t.Errorf("%q, then %q %v", first, again, err)
	}
	content := []byte(first + "\n")
	for name, make := range map[string]func(string) error{
		"others read it":  func(p string) error { return errors.Join(os.WriteFile(p, content, 0o600), os.Chmod(p, 0o640)) },
		"a link":          func(p string) error { return os.Symlink(path, p) },
		"another name":    func(p string) error { return errors.Join(os.WriteFile(p+"x", content, 0o600), os.Link(p+"x", p)) },
		"a pipe":          func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"empty":           func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"too short":       func(p string) error { return os.WriteFile(p, content[:20], 0o600) },
		"no hexadecimals": func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 64)), 0o600) },
		"in a directory where others write": func(p string) error {
			return errors.Join(os.Mkdir(p, 0o777), os.Chmod(p, 0o777)) // and the file below is not there
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := make(p); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "in a") {
				p = filepath.Join(p, "token")
			}
			token, err := Token(p)
			var te *TokenError
			if token != "" || !errors.As(err, &te) || te.Hint() == "" {
				t.Errorf("%q %v", token, err)
			}
		})
	}
}

// TestListensOnLoopbackOnly: what others could reach is refused before it is opened, and so
// is what the page's name does not lead to.
func TestListensOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "[::ffff:127.0.0.1]:0"} {
		l, err := Listen(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("%s listens on %s", address, l.Addr())
		}
		l.Close()
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "10.0.0.1:0", "[fe80::1%lo]:0", "example.org:0", "127.0.0.1", "127.0.0.1:x", "localhost.example.org:0", "127.0.0.2:0", ""} {
		if l, err := Listen(address); err == nil {
			l.Close()
			t.Errorf("%s was opened as %s", address, l.Addr())
		}
	}
	if _, err := Listen("0.0.0.0:0"); !errors.Is(err, ErrNotLoopback) {
		t.Error(err)
	}
	if _, err := Listen("127.0.0.2:0"); !errors.Is(err, ErrNotBoth) {
		t.Error(err)
	}
}

// TestNobodyElseHasTheOtherLoopback: a port on which somebody listens under one address is
// not taken under the other, and one that is taken is taken under both, and answers there.
func TestNobodyElseHasTheOtherLoopback(t *testing.T) {
	for _, foreign := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		other, err := net.Listen("tcp", foreign)
		if err != nil {
			t.Fatalf("this test needs 127.0.0.1 and ::1: %v", err)
		}
		_, port, _ := net.SplitHostPort(other.Addr().String())
		for _, address := range []string{"127.0.0.1:", "[::1]:", "localhost:"} {
			if l, err := Listen(address + port); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s%s beside %s: %v %v", address, port, other.Addr(), l, err)
			}
		}
		other.Close()
	}
	b := newBench(t, nil)
	_, port, _ := net.SplitHostPort(b.cfg.Listener.Addr().String())
	for _, at := range []string{"127.0.0.1:" + port, "[::1]:" + port, "[::]:" + port, "0.0.0.0:" + port} {
		if l, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("somebody else listens on %s: %v %v", at, l, err)
		}
	}
	for _, at := range []string{"127.0.0.1:" + port, "[::1]:" + port} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+at+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = b.page
		res, err := b.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("the page at %s: %s", at, res.Status)
		}
	}
}
