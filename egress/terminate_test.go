package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A testCA is an authority of the world outside.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world's authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{cert, key}
}

func (ca *testCA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// leaf is a server's certificate, signed by the authority or, if that is nil, by itself.
func (ca *testCA) leaf(t testing.TB, until time.Duration, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secureOrigin is a rawOrigin inside TLS.
func secureOrigin(t testing.TB, cfg *tls.Config, response string) *origin {
	o := &origin{}
	o.Addr = serveTCP(t, func(raw net.Conn) {
		conn := tls.Server(raw, cfg)
		var all bytes.Buffer
		req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &all)))
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		o.mu.Lock()
		if all.Len() > 0 {
			o.seen = append(o.seen, all.String())
		}
		o.mu.Unlock()
		if err == nil {
			io.WriteString(conn, response)
		}
		conn.Close()
	})
	return o
}

// The hosts of these tests, and the placeholders of their credentials. The first
// has another port beside that of HTTPS, which is another place.
const (
	apiHost, otherHost, plainHost = "api.example.org", "other.example.org", "plain.example.org"

	otherPlaceholder = "sandgate-credential-zyxwvutsrqponmlkjihgfedc"
	otherSecret      = "an0ther/secret"
)

// sealedFor is a proxy with a credential for apiHost and one for otherHost, both at 443.
// The hosts that it reaches are the world's.
func sealedFor(t testing.TB, w *world, ca *testCA, change func(*Config)) (*proxy, *Authority) {
	t.Helper()
	authority, err := NewAuthority([]string{apiHost, otherHost}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, w, func(c *Config) {
		c.Allow = [][]string{{apiHost, apiHost + ":8443", otherHost, plainHost}}
		c.Authority, c.RootCAs = authority, ca.pool()
		c.Credentials = []Credential{
			{Name: "API_KEY", Placeholder: placeholder, Secret: secret, Host: apiHost},
			{Name: "OTHER_KEY", Placeholder: otherPlaceholder, Secret: otherSecret, Host: otherHost + ":443"},
		}
		if change != nil {
			change(c)
		}
	})
	return p, authority
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	return pool
}

// sealedWorld has one answering server behind all three names.
func sealedWorld(t testing.TB, ca *testCA, response string) (*world, *origin) {
	o := secureOrigin(t, &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost, otherHost, plainHost)}}, response)
	w := newWorld()
	for i, name := range []string{apiHost, otherHost, plainHost} {
		w.site(name, fmt.Sprintf("93.184.216.%d", 34+i), 443, o)
	}
	w.site(apiHost, "93.184.216.34", 8443, o)
	return w, o
}

// secure speaks TLS to target through the proxy.
func secure(t testing.TB, p *proxy, target string, cfg *tls.Config) (*tls.Conn, error) {
	t.Helper()
	raw, r, resp := connectTo(t, p, target)
	if resp.StatusCode != 200 || r.Buffered() != 0 {
		t.Fatalf("CONNECT: %v", resp.Status)
	}
	conn := tls.Client(raw, cfg)
	return conn, conn.HandshakeContext(t.Context())
}

func mustSecure(t testing.TB, p *proxy, target string, cfg *tls.Config) *tls.Conn {
	t.Helper()
	conn, err := secure(t, p, target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func basicPair(s string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s))
}

// TestSecretsReachOneHostInsideTLS: in the header, by CONNECT and by SOCKS, and not in
// the line or the body, which servers log. What the host repeats is blotted out, and
// the log names the credential and not the secret.
func TestSecretsReachOneHostInsideTLS(t *testing.T) {
	ca := newTestCA(t)
	w, o := sealedWorld(t, ca, fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n<%[1]s>", secret, len(secret)+2))
	p, authority := sealedFor(t, w, ca, nil)
	request := fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %[1]s\r\nX-Both: %[1]s, %[1]s\r\nX-Basic: %[3]s\r\n"+
		"Accept-Encoding: gzip\r\nContent-Length: %[4]d\r\n\r\n%[1]s", placeholder, apiHost, basicPair(placeholder), len(placeholder))
	socks := func() net.Conn {
		conn := dialTCP(t, p.addr)
		fmt.Fprintf(conn, "\x05\x01\x00\x05\x01\x00\x03%c%s\x01\xbb", len(apiHost), apiHost)
		if _, err := io.ReadFull(conn, make([]byte, 2+10)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	connect := func() net.Conn { raw, _, _ := connectTo(t, p, apiHost+":443"); return raw }
	for way, dial := range map[Protocol]func() net.Conn{ProtocolConnect: connect, ProtocolSOCKS5: socks} {
		conn := tls.Client(dial(), &tls.Config{ServerName: apiHost, RootCAs: authority.pool(), NextProtos: []string{"h2", "http/1.1"}})
		io.WriteString(conn, request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != protocolHTTP1 {
			t.Errorf("%s: the protocol is %q", way, got)
		}
		body, _ := io.ReadAll(resp.Body)
		conn.Close()
		stars := strings.Repeat("*", len(secret))
		if resp.StatusCode != 200 || string(body) != "<"+stars+">" || resp.Header.Get("X-Echo") != stars {
			t.Errorf("%s: %v %q", way, resp, body)
		}
		e := p.event(t)
		if e.Decision != Allow || e.Reason != "" || e.Protocol != way || !e.Terminated || !slices.Equal(e.Applied, []string{"API_KEY"}) || e.Host != apiHost || e.Address.Port() != 443 {
			t.Errorf("%s: recorded %+v", way, e)
		}
	}
	seen := o.requests()
	if len(seen) != 2 {
		t.Fatalf("%d requests", len(seen))
	}
	for _, got := range seen {
		for _, want := range []string{
			"POST /" + placeholder + " HTTP/1.1\r\nHost: " + apiHost + "\r\n",
			"Authorization: Bearer " + secret + "\r\n", "X-Both: " + secret + ", " + secret + "\r\n",
			"X-Basic: " + basicPair(secret) + "\r\n", "Accept-Encoding: identity\r\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if !strings.HasSuffix(got, "\r\n\r\n"+placeholder) {
			t.Errorf("the body changed: %q", got)
		}
	}
}

// TestPlaceholdersOfHostsElsewhereAreAlarms: in clear text to the very host, to its other
// port, and to a host with a credential of its own; nobody sees placeholder or secret.
func TestPlaceholdersOfHostsElsewhereAreAlarms(t *testing.T) {
	ca := newTestCA(t)
	for name, c := range map[string]struct{ target, inside, clear string }{
		"another host":      {target: otherHost + ":443", inside: "GET / HTTP/1.1\r\nHost: " + otherHost + "\r\nX: " + placeholder + "\r\n\r\n"},
		"its query":         {target: otherHost + ":443", inside: "GET /?" + placeholder + " HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n"},
		"its Basic":         {target: otherHost + ":443", inside: "GET / HTTP/1.1\r\nHost: " + otherHost + "\r\nAuthorization: " + basicPair(placeholder) + "\r\n\r\n"},
		"its body":          {target: otherHost + ":443", inside: "POST / HTTP/1.1\r\nHost: " + otherHost + "\r\nContent-Length: 99\r\n\r\n" + placeholder},
		"absolute form":     {clear: "GET http://" + apiHost + ":443/ HTTP/1.1\r\nHost: " + apiHost + ":443\r\nX: " + placeholder + "\r\n\r\n"},
		"port 80":           {clear: "GET http://" + apiHost + "/ HTTP/1.1\r\nHost: " + apiHost + "\r\nX: " + placeholder + "\r\n\r\n"},
		"a plain host":      {clear: "GET http://" + plainHost + "/ HTTP/1.1\r\nHost: " + plainHost + "\r\nX: " + placeholder + "\r\n\r\n"},
		"a clear tunnel":    {clear: "CONNECT " + apiHost + ":443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: " + apiHost + "\r\nX: " + placeholder + "\r\n\r\n"},
		"the other port":    {clear: "CONNECT " + apiHost + ":8443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: " + apiHost + "\r\nX: " + placeholder + "\r\n\r\n"},
		"no HTTP at all":    {clear: "CONNECT " + apiHost + ":443 HTTP/1.1\r\n\r\nSSH-" + placeholder},
		"as a host's label": {clear: "CONNECT " + placeholder + "." + apiHost + ":443 HTTP/1.1\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := sealedWorld(t, ca, ok)
			clear := rawOrigin(t, ok)
			w.site(apiHost, "93.184.216.34", 80, clear)
			w.site(plainHost, "93.184.216.36", 80, clear)
			p, authority := sealedFor(t, w, ca, nil)
			if c.clear != "" {
				conn := dialTCP(t, p.addr)
				io.WriteString(conn, c.clear)
				conn.CloseWrite()
				io.Copy(io.Discard, conn)
			} else {
				conn := mustSecure(t, p, c.target, &tls.Config{ServerName: otherHost, RootCAs: authority.pool()})
				io.WriteString(conn, c.inside)
				conn.CloseWrite()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || resp.StatusCode != http.StatusForbidden || resp.Header.Get("Sandgate-Reason") != string(ReasonCredential) {
					t.Errorf("answered %v, %v", resp, err)
				}
				conn.Close()
			}
			e := p.event(t)
			if e.Reason != ReasonCredential || e.Decision != Deny || !strings.Contains(e.Detail, "API_KEY") || len(e.Applied) != 0 {
				t.Errorf("recorded %+v", e)
			}
			p.stop()
			for _, got := range append(o.requests(), clear.requests()...) {
				if strings.Contains(got, placeholder) || strings.Contains(got, secret) {
					t.Errorf("somebody saw %q", got)
				}
			}
		})
	}
}

// TestOtherTLSPassesUntouched: a host without a credential, another port of one that
// has it, and a host whose credential is spent show their own certificate.
func TestOtherTLSPassesUntouched(t *testing.T) {
	ca := newTestCA(t)
	w, _ := sealedWorld(t, ca, ok)
	p, authority := sealedFor(t, w, ca, func(c *Config) { c.Credentials[1].Secret = "" })
	for target, name := range map[string]string{plainHost + ":443": plainHost, apiHost + ":8443": apiHost, otherHost + ":443": otherHost} {
		conn := mustSecure(t, p, target, &tls.Config{ServerName: name, RootCAs: ca.pool()})
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", name)
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: %v, %v", target, resp, err)
		}
		conn.Close()
		if e := p.event(t); e.Terminated || e.Decision != Allow {
			t.Errorf("%s: recorded %+v", target, e)
		}
		conn, err := secure(t, p, target, &tls.Config{ServerName: name, RootCAs: authority.pool()})
		if err == nil {
			t.Errorf("%s is vouched for by our authority", target)
		}
		conn.NetConn().Close()
		p.event(t)
	}
}

// TestHostsHaveToShowWhoTheyAre: a host whose certificate does not hold gets no request,
// and the program is told which it was. The first is the twin that does.
func TestHostsHaveToShowWhoTheyAre(t *testing.T) {
	ca := newTestCA(t)
	alone := (*testCA)(nil)
	for _, c := range []struct {
		name   string
		cfg    *tls.Config
		reason Reason
		says   string
	}{
		{"good", &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost)}}, "", ""},
		{"expired", &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, -time.Hour, apiHost)}}, ReasonCertificate, "expired"},
		{"another name", &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, otherHost)}}, ReasonCertificate, "not " + apiHost},
		{"nobody's", &tls.Config{Certificates: []tls.Certificate{newTestCA(t).leaf(t, time.Hour, apiHost)}}, ReasonCertificate, "unknown authority"},
		{"its own", &tls.Config{Certificates: []tls.Certificate{alone.leaf(t, time.Hour, apiHost)}}, ReasonCertificate, "unknown authority"},
		{"TLS 1.1", &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, ReasonUnreachable, "version"},
		{"no HTTP/1.1", &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost)}, NextProtos: []string{"dot"}}, ReasonUnreachable, "application protocol"},
	} {
		o := secureOrigin(t, c.cfg, ok)
		w := newWorld()
		w.site(apiHost, "93.184.216.34", 443, o)
		p, authority := sealedFor(t, w, ca, nil)
		conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", apiHost, placeholder)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, _ := io.ReadAll(resp.Body)
		conn.Close()
		e := p.event(t)
		if c.reason == "" {
			if resp.StatusCode != 200 || e.Decision != Allow || len(o.requests()) != 1 {
				t.Errorf("%s: %v, recorded %+v", c.name, resp, e)
			}
			continue
		}
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %s %q", c.name, resp.Status, body)
		}
		if e.Reason != c.reason || !strings.Contains(e.Detail, c.says) || len(o.requests()) != 0 {
			t.Errorf("%s: recorded %+v, the host saw %q", c.name, e, o.requests())
		}
	}
}

// TestClientsThatDoNotAgreeAreRecorded: one that does not trust the authority, or wants
// something else than HTTP/1.1 over TLS 1.2, or another name; the host hears nothing.
func TestClientsThatDoNotAgreeAreRecorded(t *testing.T) {
	ca := newTestCA(t)
	w, o := sealedWorld(t, ca, ok)
	p, authority := sealedFor(t, w, ca, nil)
	for _, c := range []struct {
		name   string
		cfg    *tls.Config
		reason Reason
		says   string
	}{
		{"distrust", &tls.Config{ServerName: apiHost, RootCAs: ca.pool()}, ReasonHandshake, "bad certificate"},
		{"distrust, 1.2", &tls.Config{ServerName: apiHost, RootCAs: ca.pool(), MaxVersion: tls.VersionTLS12}, ReasonHandshake, "bad certificate"},
		{"HTTP/2 only", &tls.Config{ServerName: apiHost, RootCAs: authority.pool(), NextProtos: []string{"h2"}}, ReasonHandshake, "application protocol"},
		{"TLS 1.1", &tls.Config{ServerName: apiHost, RootCAs: authority.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, ReasonHandshake, "version"},
		{"another name", &tls.Config{ServerName: otherHost, RootCAs: authority.pool()}, ReasonMismatch, otherHost},
		{"no name", &tls.Config{InsecureSkipVerify: true}, ReasonMismatch, "names no server"},
	} {
		conn, err := secure(t, p, apiHost+":443", c.cfg)
		if err == nil { // a TLS 1.3 client is done before we know
			_, err = conn.Read(make([]byte, 1))
		}
		conn.Close()
		e := p.event(t)
		if err == nil || e.Reason != c.reason || e.Decision != Deny || !strings.Contains(e.Detail, c.says) || e.Host != apiHost || e.Up != 0 {
			t.Errorf("%s: %v, recorded %+v", c.name, err, e)
		}
	}
	conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool(), MaxVersion: tls.VersionTLS12})
	conn.Close()
	if e := p.event(t); e.Reason != "" || e.Decision != Allow { // it came to look
		t.Errorf("a client that agrees: recorded %+v", e)
	}
	p.stop()
	if seen := o.requests(); len(seen) != 0 {
		t.Errorf("the host saw %q", seen)
	}
}

// TestAmbiguousRequestsInsideTLSAreRefused: what two programs could read in two ways, or
// is for another host, reaches nobody, with the secret or without.
func TestAmbiguousRequestsInsideTLSAreRefused(t *testing.T) {
	ca := newTestCA(t)
	w, o := sealedWorld(t, ca, ok)
	p, authority := sealedFor(t, w, ca, nil)
	head := "Host: " + apiHost + "\r\nAuthorization: Bearer " + placeholder + "\r\n"
	for _, c := range []struct {
		name, request string
		reason        Reason
	}{
		{"both lengths", "POST / HTTP/1.1\r\n" + head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{"two lengths", "POST / HTTP/1.1\r\n" + head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", ReasonMalformed},
		{"two lengths in one", "POST / HTTP/1.1\r\n" + head + "Content-Length: 5, 5\r\n\r\nhello", ReasonMalformed},
		{"a folded line", "GET / HTTP/1.1\r\n" + head + "X: a\r\n b\r\n\r\n", ReasonMalformed},
		{"a bare line feed", "GET / HTTP/1.1\n" + head + "\r\n", ReasonMalformed},
		{"a blank before the colon", "GET / HTTP/1.1\r\n" + head + "Transfer-Encoding : chunked\r\n\r\n", ReasonMalformed},
		{"another coding", "POST / HTTP/1.1\r\n" + head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{"no host", "GET / HTTP/1.1\r\n\r\n", ReasonMalformed},
		{"two hosts", "GET / HTTP/1.1\r\n" + head + head + "\r\n", ReasonMalformed},
		{"another host", "GET / HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n", ReasonMismatch},
		{"another port", "GET / HTTP/1.1\r\nHost: " + apiHost + ":80\r\n\r\n", ReasonMismatch},
		{"absolute form", "GET https://" + apiHost + "/ HTTP/1.1\r\n" + head + "\r\n", ReasonMalformed},
		{"another proxy", "CONNECT " + otherHost + ":443 HTTP/1.1\r\n" + head + "\r\n", ReasonMalformed},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ReasonMalformed},
	} {
		conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
		io.WriteString(conn, c.request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.Header.Get("Sandgate-Reason") != string(c.reason) {
			t.Errorf("%s: %v, %v", c.name, resp, err)
		}
		conn.Close()
		if e := p.event(t); e.Reason != c.reason || e.Host != apiHost || !e.Terminated {
			t.Errorf("%s: recorded %+v", c.name, e)
		}
	}
	conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
	io.WriteString(conn, "GET / HTTP/1.1\r\n"+head+"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("an upgrade: %v, %v", resp, err)
	}
	conn.Close()
	if seen := o.requests(); len(seen) != 1 || strings.Contains(strings.ToLower(seen[0]), "upgrade") {
		t.Errorf("the host saw %q", seen)
	}
}

// pages is a real server with answers of many shapes. It notes which connection each
// request came by.
type pages struct {
	*httptest.Server
	mu    sync.Mutex
	peers []string
}

func newPages(t testing.TB, ca *testCA) *pages {
	s := &pages{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	mux.HandleFunc("GET /who", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization") != "") })
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			if i == 0 {
				time.Sleep(200 * time.Millisecond)
			}
		}
	})
	mux.HandleFunc("GET /big", func(w http.ResponseWriter, r *http.Request) { io.CopyN(w, zeros{}, 8<<20) })
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.peers = append(s.peers, r.RemoteAddr)
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost)}}
	s.EnableHTTP2 = true // and not used: it is not asked for
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestOrdinaryClientInsideTLS: Go's own, with kept connections, bodies of known and
// unknown length in both directions, 100-continue, and a stream that comes as it is sent.
func TestOrdinaryClientInsideTLS(t *testing.T) {
	ca := newTestCA(t)
	s := newPages(t, ca)
	w := newWorld()
	w.site(apiHost, "93.184.216.34", 443, s.Listener.Addr())
	p, authority := sealedFor(t, w, ca, nil)
	via, _ := url.Parse("http://" + p.addr)
	transport := &http.Transport{Proxy: http.ProxyURL(via), ForceAttemptHTTP2: true, ExpectContinueTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: authority.pool()}}
	defer transport.CloseIdleConnections()
	do := func(method, path string, body io.Reader, length int64) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+apiHost+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Authorization", "Bearer "+placeholder)
		if body != nil {
			req.Header.Set("Expect", "100-continue")
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return resp, string(got)
	}
	const size = 3 << 20
	text := strings.Repeat("0123456789abcdef", size/16)
	for _, length := range []int64{size, -1} {
		if resp, got := do("POST", "/echo", io.LimitReader(strings.NewReader(text), size), length); resp.ProtoMajor != 1 || got != text {
			t.Errorf("a body announced as %d: %s, %d bytes", length, resp.Proto, len(got))
		}
	}
	if _, got := do("GET", "/who", nil, 0); got != "true" {
		t.Errorf("who: %q", got)
	}
	if _, got := do("GET", "/big", nil, 0); len(got) != 8<<20 {
		t.Errorf("%d bytes", len(got))
	}
	if resp, got := do("HEAD", "/who", nil, 0); resp.StatusCode != 200 || got != "" {
		t.Errorf("HEAD: %v %q", resp, got)
	}
	if _, got := do("GET", "/stream", nil, 0); strings.Count(got, "data:") != 5 {
		t.Errorf("the stream: %q", got)
	}
	if _, got := do("GET", "/none", nil, 0); !strings.HasPrefix(got, "404") {
		t.Errorf("404: %q", got)
	}
	transport.CloseIdleConnections()
	s.mu.Lock()
	peers := slices.Clone(s.peers)
	s.mu.Unlock()
	for range peers {
		if e := p.event(t); e.Decision != Allow || e.Reason != "" || !e.Terminated || !slices.Equal(e.Applied, []string{"API_KEY"}) {
			t.Errorf("recorded %+v", e)
		}
	}
	slices.Sort(peers)
	if len(peers) != 7 || len(slices.Compact(peers)) != 7 {
		t.Errorf("%d requests over connections from %v, want one each", len(peers), peers)
	}
	p.stop()
	if len(p.events) != 0 {
		t.Errorf("more was recorded: %+v", <-p.events)
	}
}

// TestStreamsAreNotHeldBack: the first event is there before the second is sent.
func TestStreamsAreNotHeldBack(t *testing.T) {
	ca := newTestCA(t)
	first := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		select {
		case <-first:
			io.WriteString(w, "two\n")
		case <-time.After(30 * time.Second):
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, time.Hour, apiHost)}}
	server.StartTLS()
	defer server.Close()
	w := newWorld()
	w.site(apiHost, "93.184.216.34", 443, server.Listener.Addr())
	p, authority := sealedFor(t, w, ca, nil)
	conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", apiHost)
	conn.CloseWrite() // half closed: the answer still comes
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); line != "one\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	close(first)
	if line, err := r.ReadString('\n'); line != "two\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	conn.Close()
}

// TestRequestsInsideTLSCount: a kept connection is no way around the limit.
func TestRequestsInsideTLSCount(t *testing.T) {
	ca := newTestCA(t)
	w, o := sealedWorld(t, ca, ok)
	p, authority := sealedFor(t, w, ca, func(c *Config) { c.Limits.Total = 3 })
	conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
	r := bufio.NewReader(conn)
	answered := 0
	for range 5 {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", apiHost)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		io.Copy(io.Discard, resp.Body)
		answered++
	}
	conn.Close()
	p.stop()
	if seen := o.requests(); answered != 3 || len(seen) != 3 {
		t.Errorf("%d answers, %d requests; the limit is 3", answered, len(seen))
	}
	var last Event
	for len(p.events) > 0 {
		last = <-p.events
	}
	if last.Reason != ReasonLimit {
		t.Errorf("the last entry is %+v", last)
	}
}

// TestTerminatedConnectionsLeaveNothing: whole, broken, refused and abandoned ones leave
// no descriptor; goleak looks for goroutines when all tests are done.
func TestTerminatedConnectionsLeaveNothing(t *testing.T) {
	ca := newTestCA(t)
	w, _ := sealedWorld(t, ca, ok)
	p, authority := sealedFor(t, w, ca, nil)
	good := &tls.Config{ServerName: apiHost, RootCAs: authority.pool()}
	round := func() {
		for _, cfg := range []*tls.Config{good, {ServerName: apiHost, RootCAs: ca.pool()}, {ServerName: otherHost, RootCAs: authority.pool()}} {
			if conn, err := secure(t, p, apiHost+":443", cfg); err == nil {
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", apiHost)
				io.ReadAll(conn)
				conn.Close()
			} else {
				conn.NetConn().Close()
			}
			p.event(t)
		}
		conn := mustSecure(t, p, apiHost+":443", good)
		io.WriteString(conn, "GET / HTT")
		conn.NetConn().Close()
		p.event(t)
		raw, _, _ := connectTo(t, p, apiHost+":443")
		raw.Write(helloFor(t, apiHost)[:40])
		raw.Close()
		p.event(t)
	}
	round()
	before := descriptors(t)
	for range 10 {
		round()
	}
	deadline := time.Now().Add(30 * time.Second)
	for descriptors(t) > before && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestAuthorityIsGoodForItsHostsOnly: whoever had its key could make certificates for
// the hosts of this session, and for nothing else, under the rules of X.509.
func TestAuthorityIsGoodForItsHostsOnly(t *testing.T) {
	until := time.Now().Add(time.Hour)
	a, err := NewAuthority([]string{apiHost, otherHost}, until)
	if err != nil {
		t.Fatal(err)
	}
	if block, rest := pem.Decode(a.PEM()); block == nil || block.Type != pemCertificate || len(rest) != 0 || bytes.Contains(a.PEM(), []byte("PRIVATE")) {
		t.Errorf("PEM: %s", a.PEM())
	}
	c := a.cert
	if !c.PermittedDNSDomainsCritical || !slices.Equal(c.PermittedDNSDomains, []string{apiHost, otherHost}) || !c.MaxPathLenZero || c.NotAfter.After(until) {
		t.Errorf("the certificate: %+v", c)
	}
	verify := func(chain tls.Certificate, name string) error {
		leaf, err := x509.ParseCertificate(chain.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		middle := x509.NewCertPool()
		for _, der := range chain.Certificate[1:] {
			x, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			middle.AddCert(x)
		}
		_, err = leaf.Verify(x509.VerifyOptions{Roots: a.pool(), Intermediates: middle, DNSName: name})
		return err
	}
	for _, name := range []string{apiHost, otherHost} {
		leaf, err := a.leaf(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(*leaf, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := a.leaf(name); err != nil || again != leaf {
			t.Errorf("%s: a second certificate, %v", name, err)
		}
	}
	if _, err := a.leaf(plainHost); err == nil {
		t.Error("it signs for a host that it is not for")
	}
	stolen := &testCA{a.cert, a.key}
	for _, names := range [][]string{{plainHost}, {"example.org"}, {apiHost, plainHost}, {"*.example.org"}, {"notapi.example.org"}} {
		err := verify(stolen.leaf(t, time.Hour, names...), "")
		if invalid := (x509.CertificateInvalidError{}); !errors.As(err, &invalid) || invalid.Reason != x509.CANotAuthorizedForThisName {
			t.Errorf("a certificate for %v: %v", names, err)
		}
	}
	for _, addr := range []string{"93.184.216.34", "2606:2800:220:1::1"} {
		template := &x509.Certificate{SerialNumber: big.NewInt(3), NotAfter: until, IPAddresses: []net.IP{net.ParseIP(addr)}}
		der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(tls.Certificate{Certificate: [][]byte{der}}, ""); err == nil {
			t.Errorf("a certificate for the address %s is good", addr)
		}
	}
	middle := &x509.Certificate{SerialNumber: big.NewInt(4), NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, middle, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	under := (&testCA{parsed, a.key}).leaf(t, time.Hour, apiHost)
	under.Certificate = append(under.Certificate, der)
	if err := verify(under, apiHost); err == nil {
		t.Error("an authority below it is good")
	}
	for _, bad := range [][]string{nil, {"93.184.216.34"}, {"API.example.org"}, {"api.example.org."}, {""}, {"*.example.org"}, {".example.org"}} {
		if _, err := NewAuthority(bad, until); err == nil {
			t.Errorf("an authority for %q", bad)
		}
	}
}

func TestHostCredentialsAreChecked(t *testing.T) {
	a, err := NewAuthority([]string{apiHost}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, service string
		authority     *Authority
		want          string
	}{
		{host: apiHost, authority: a},
		{host: apiHost + ":8443", authority: a},
		{host: "API.example.org.", authority: a},
		{host: apiHost, want: "no certificate authority"},
		{host: otherHost, authority: a, want: "is not one of"},
		{host: "93.184.216.34", authority: a, want: "is an address"},
		{host: "*.example.org", authority: a, want: "not a character"},
		{host: apiHost, service: "api=127.0.0.1:80", authority: a, want: "both a service and a host"},
	} {
		_, err := New(Config{Audit: func(Event) {}, Authority: c.authority,
			Credentials: []Credential{{Name: "K", Placeholder: placeholder, Secret: secret, Host: c.host, Service: c.service}}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

// FuzzSealedRequest: whatever a program writes inside TLS, what goes to the host is one
// request, for that host, in which the secret stands in the header or nowhere, and the
// placeholder of another credential nowhere at all.
func FuzzSealedRequest(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: " + apiHost + "\r\nX: " + placeholder + "\r\n\r\n",
		"POST /" + placeholder + " HTTP/1.1\r\nHost: " + apiHost + ":443\r\nAuthorization: " + basicPair(placeholder) + "\r\nContent-Length: 2\r\n\r\nhi",
		"POST / HTTP/1.1\r\nHost: " + apiHost + "\r\nX: " + otherPlaceholder + "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: " + otherHost + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + apiHost + "\r\nConnection: X\r\nX: " + placeholder + "\r\n\r\nGET / HTTP/1.1\r\n",
	} {
		f.Add([]byte(seed))
	}
	a, err := NewAuthority([]string{apiHost, otherHost}, time.Now().Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(Config{Audit: func(Event) {}, Authority: a, Allow: [][]string{{apiHost, otherHost}}, Credentials: []Credential{
		{Name: "API_KEY", Placeholder: placeholder, Secret: secret, Host: apiHost},
		{Name: "OTHER_KEY", Placeholder: otherPlaceholder, Secret: otherSecret, Host: otherHost},
	}})
	if err != nil {
		f.Fatal(err)
	}
	target := Target{Host: hostOf(apiHost), Port: 443}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte(otherSecret)) {
			return // it is nobody's secret then
		}
		c := &client{Server: s, sealed: true, r: bufio.NewReader(bytes.NewReader(b))}
		h, err := readHead(c.r, 8<<10)
		if err == nil {
			_, err = c.checkInner(target, h)
		}
		if err == nil {
			err = c.apply(c.attempt(ProtocolConnect), target, h)
		}
		if err != nil {
			return
		}
		var out bytes.Buffer
		sendErr := h.send(&out, c.r, c.hostField(target), h.target, func(r io.Reader) io.Reader { return c.watched(target, r) })
		head, body, _ := strings.Cut(out.String(), "\r\n\r\n")
		line, _, _ := strings.Cut(head, "\r\n")
		if strings.Contains(line, secret) || strings.Contains(body, secret) || strings.Contains(out.String(), otherPlaceholder) {
			t.Errorf("%q goes out as %q", b, out.String())
		}
		sent := bufio.NewReader(&out)
		req, err := http.ReadRequest(sent)
		if err != nil {
			return // refused by the host: an odd method or path
		}
		if req.Host != apiHost {
			t.Errorf("%q is for %q", b, req.Host)
		}
		if _, err := io.Copy(io.Discard, req.Body); sendErr == nil && err != nil {
			t.Errorf("%q: the host does not find the end of the body: %v", b, err)
		}
		if rest, _ := io.ReadAll(sent); sendErr == nil && len(rest) > 0 {
			t.Errorf("%q: %q follows the request", b, rest)
		}
	})
}

// TestTerminationEndsWithTheCall: a host that never answers does not hold the call.
func TestTerminationEndsWithTheCall(t *testing.T) {
	ca := newTestCA(t)
	silent := serveTCP(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	w := newWorld()
	w.site(apiHost, "93.184.216.34", 443, silent)
	p, authority := sealedFor(t, w, ca, nil)
	conn := mustSecure(t, p, apiHost+":443", &tls.Config{ServerName: apiHost, RootCAs: authority.pool()})
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", apiHost)
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	p.stop()
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if e := p.event(t); e.Host != apiHost || e.Reason == "" {
		t.Errorf("recorded %+v", e)
	}
}
