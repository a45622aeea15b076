package supervisor

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// An authority of a session signs for the hosts of one profile where TLS ends at the
// proxy. It is in memory only, and gone with the session.
type authority struct {
	*egress.Authority
	bundle []byte // the machine's certificates and its own, as PEM
}

// How long an authority is good beyond the call that it was made for, and the longest
// call that it is made for.
const (
	authorityTime = 24 * time.Hour
	longestCall   = 30 * 24 * time.Hour
)

// trusting gives the call the authority that its profile needs, and its sandbox the
// certificates by which programs recognise it.
func (s *Supervisor) trusting(ctx context.Context, c *call, p sandboxprofile.Profile) (context.Context, error) {
	if len(p.Network.Terminated) == 0 {
		return ctx, nil
	}
	a, err := c.session.authority(p, s.cfg.Egress)
	if err != nil {
		return ctx, &confine.Unenforceable{Part: "TLS that ends at the egress proxy", Reason: err.Error()}
	}
	c.authority = a
	return confine.WithTrust(ctx, a.bundle), nil
}

// authority is the session's for the hosts of p. A new one takes its place when what
// it signed would not outlive the call; sandboxes that know the old one are not used
// again then.
func (x *session) authority(p sandboxprofile.Profile, cfg EgressConfig) (*authority, error) {
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
		x.authorities = map[string]*authority{}
	}
	x.authorities[key] = a
	return a, nil
}

func newAuthority(terminated []string, until time.Time, cfg EgressConfig) (*authority, error) {
	var hosts []string
	for _, at := range terminated {
		t, err := egress.CredentialHost(at)
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
	return &authority{a, bytes.Join([][]byte{roots, a.PEM()}, []byte("\n"))}, nil
}

// rootCAs are what hosts are checked by; nil is what the machine trusts.
func (e EgressConfig) rootCAs() *x509.CertPool {
	if e.Roots == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(e.Roots)
	return pool
}
