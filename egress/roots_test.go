package egress

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

// TestSystemRootsAreCertificatesOnly: what this machine trusts, as its own TLS clients
// find it, and nothing that lies in the same file.
func TestSystemRootsAreCertificatesOnly(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, parts ...[]byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	one, two := block(pemCertificate, newTestCA(t).cert.Raw), block(pemCertificate, newTestCA(t).cert.Raw)
	key := block("EC PRIVATE KEY", []byte("a key"))
	none := filepath.Join(dir, "none")
	if err := os.Mkdir(none, 0o700); err != nil {
		t.Fatal(err)
	}
	file := write("both.pem", []byte("# a comment\n"), one, key, two)
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("more/two.pem", two)
	for _, c := range []struct {
		file, dirs string
		want       []byte
	}{
		{file, "", append(bytes.Clone(one), two...)},
		{write("one.pem", one), filepath.Join(dir, "more") + ":" + none, append(bytes.Clone(one), two...)},
		{write("key.pem", key), none, nil},
		{filepath.Join(dir, "absent"), none, nil},
	} {
		t.Setenv("SSL_CERT_FILE", c.file)
		t.Setenv("SSL_CERT_DIR", c.dirs)
		got, err := SystemRoots()
		if !bytes.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s and %q: %s, %v", c.file, c.dirs, got, err)
		}
	}
}

// TestSystemRootsAreThoseOfTheMachine: every certificate of the list parses, and Go finds
// as many. A machine for tests has a list; one without has none to compare.
func TestSystemRootsAreThoseOfTheMachine(t *testing.T) {
	roots, err := SystemRoots()
	if err != nil {
		t.Fatal(err)
	}
	own := x509.NewCertPool()
	if !own.AppendCertsFromPEM(roots) {
		t.Fatal("no certificate in it parses")
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if !own.Equal(system) {
		t.Error("it is another list than that of Go's clients")
	}
}
