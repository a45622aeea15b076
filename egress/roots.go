package egress

import (
	"bytes"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// pemCertificate is the type of a PEM block with a certificate (RFC 7468, section 5).
const pemCertificate = "CERTIFICATE"

// Where systems keep the certificates that they trust, as one file or in a directory:
// those of crypto/x509 for Linux.
var (
	rootFiles = []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian and its relatives
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // CentOS, RHEL 7
		"/etc/ssl/cert.pem",                                 // Alpine
	}
	rootDirs = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// SystemRoots are the certificates that this machine trusts, as PEM: those by which
// Go's own TLS clients check servers, SSL_CERT_FILE and SSL_CERT_DIR included. What
// else is in those files (comments, keys) is left out.
func SystemRoots() ([]byte, error) {
	files := rootFiles
	if own := os.Getenv("SSL_CERT_FILE"); own != "" {
		files = []string{own}
	}
	dirs := rootDirs
	if own := os.Getenv("SSL_CERT_DIR"); own != "" {
		dirs = filepath.SplitList(own)
	}
	var roots []byte
	for _, name := range files {
		if roots = certificatesIn(name); len(roots) > 0 {
			break
		}
	}
	if len(roots) > 0 && os.Getenv("SSL_CERT_DIR") == "" {
		return roots, nil
	}
	for _, dir := range dirs {
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		slices.Sort(names)
		for _, name := range names {
			roots = append(roots, certificatesIn(name)...)
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("egress: this machine has no list of trusted certificates")
	}
	return roots, nil
}

// certificatesIn are the certificates of a file, encoded anew; none if it cannot be read.
func certificatesIn(name string) []byte {
	rest, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out.Bytes()
		}
		if block.Type == pemCertificate && len(block.Headers) == 0 {
			_ = pem.Encode(&out, block) // a buffer takes everything
		}
	}
}
