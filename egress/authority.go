package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// An Authority signs for the hosts whose TLS ends at the proxy. Programs trust its
// certificate, which itself says that it is good for these hosts, and those below
// them, and for no others (name constraints, RFC 5280, section 4.2.1.10). Its key
// is in this process's memory and nowhere else. It is safe for concurrent use.
type Authority struct {
	hosts []string
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// backdated is how far before its making a certificate begins to be good: programs
// may set a clock of their own, and not every one is right.
const backdated = time.Hour

// NewAuthority makes one for hosts, DNS names in the form of Host.String. What it
// signs is good until then.
func NewAuthority(hosts []string, until time.Time) (*Authority, error) {
	for _, name := range hosts {
		if h, err := hostrule.ParseHost(name); err != nil || h.IsAddr() || h.Name() != name {
			return nil, fmt.Errorf("egress: authority: %.80q is not a plain DNS name", name)
		}
	}
	if len(hosts) == 0 {
		return nil, errors.New("egress: authority: no host given: the authority could sign for every host")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("egress: authority: %w", err)
	}
	a := &Authority{hosts: slices.Clone(hosts), key: key, leaves: map[string]*tls.Certificate{}}
	if a.cert, err = a.selfSigned(until); err != nil {
		return nil, fmt.Errorf("egress: authority: %w", err)
	}
	return a, nil
}

// selfSigned is the certificate of the authority. Constraints on names leave those
// of another kind alone, so every address is excluded by itself.
func (a *Authority) selfSigned(until time.Time) (*x509.Certificate, error) {
	everywhere := []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
	template := certificate("sandgate session authority "+rand.Text()[:8], until)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains = a.hosts
	template.ExcludedIPRanges = everywhere
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// certificate has the fields of every certificate of an authority.
func certificate(name string, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-backdated), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// PEM is the certificate for programs to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: a.cert.Raw})
}

// Expires is when nothing that the authority signed is good any more.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// leaf is a certificate for one of the hosts, with a key of its own.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	if !slices.Contains(a.hosts, host) {
		return nil, fmt.Errorf("egress: authority: %s is not one of %s", host, strings.Join(a.hosts, ", "))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf, ok := a.leaves[host]; ok {
		return leaf, nil
	}
	leaf, err := a.sign(host)
	if err != nil {
		return nil, fmt.Errorf("egress: authority: sign for %s: %w", host, err)
	}
	a.leaves[host] = leaf
	return leaf, nil
}

func (a *Authority) sign(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// A common name has at most 64 characters; what counts is the name below.
	template := certificate("sandgate", a.cert.NotAfter)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.DNSNames = []string{host}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
