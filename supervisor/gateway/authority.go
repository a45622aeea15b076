package gateway

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// An Authority of a session signs for the hosts of one profile where TLS ends at the
// proxy. It is in memory only, and gone with the session.
type Authority struct {
	*egress.Authority
	Bundle []byte // the machine's certificates and its own, as PEM
}

// How long an authority is good beyond the call that it was made for, and the longest
// call that it is made for.
const (
	authorityTime = 24 * time.Hour
	longestCall   = 30 * 24 * time.Hour
)

// Authority is the session's for the hosts of p. A new one takes its place when what
// it signed would not outlive the call; sandboxes that know the old one are not used
// again then.
func (x *Session) Authority(p sandboxprofile.Profile, cfg Config) (*Authority, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	call := min(p.Limits.Wall, longestCall)
	key := strings.Join(p.Network.Terminated, " ")
	if a, ok := x.authorities[key]; ok && a.Expires().After(time.Now().Add(call)) {
		return a, nil
	}
	a, err := newAuthority(p.Network.Terminated, time.Now().Add(call+authorityTime), cfg)
	if err != nil {
		return nil, err
	}
	if x.authorities == nil {
		x.authorities = map[string]*Authority{}
	}
	x.authorities[key] = a
	return a, nil
}

func newAuthority(terminated []string, until time.Time, cfg Config) (*Authority, error) {
	var hosts []string
	for _, at := range terminated {
		t, err := hostrule.CredentialHost(at)
		if err != nil {
			return nil, err
		}
		if host := t.Host.String(); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	a, err := egress.NewAuthority(hosts, until)
	if err != nil {
		return nil, err
	}
	roots := cfg.Roots
	if roots == nil {
		if roots, err = egress.SystemRoots(); err != nil {
			return nil, fmt.Errorf("%w; install the package ca-certificates", err)
		}
	}
	return &Authority{a, bytes.Join([][]byte{roots, a.PEM()}, []byte("\n"))}, nil
}

// rootCAs are the certificates that hosts are checked by; with nil, the machine's.
func (e Config) rootCAs() *x509.CertPool {
	if e.Roots == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(e.Roots)
	return pool
}
