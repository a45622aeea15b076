package egress

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// through has a world in which the upstream proxy is at 198.51.100.9:3128, and nothing else
// but what the test adds.
func through(t *testing.T, text, noProxy string, answer func(net.Conn), rules ...string) (*world, *proxy) {
	t.Helper()
	w := newWorld()
	w.sites["198.51.100.9:3128"] = serveTCP(t, answer).String()
	u, err := ParseUpstream(text, noProxy)
	if err != nil {
		t.Fatal(err)
	}
	return w, startProxy(t, w, func(c *Config) {
		c.Allow, c.Upstream = [][]string{rules}, u
		c.Limits.Dial = 2 * time.Second
	})
}

// askedFor is an HTTP proxy that tells what it was asked for, and then echoes.
func askedFor(heads chan<- string, status string) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			head.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		heads <- head.String()
		io.WriteString(conn, "HTTP/1.1 "+status+"\r\nVia: x\r\n\r\n")
		if strings.HasPrefix(status, "2") {
			io.Copy(conn, r)
			conn.(interface{ CloseWrite() error }).CloseWrite()
		}
	}
}

// TestUpstream: names go to the upstream as names, with its password; what it is not for
// goes directly.
func TestUpstream(t *testing.T) {
	heads := make(chan string, 1)
	w, p := through(t, "http://me:s3cret@198.51.100.9:3128", "near.example", askedFor(heads, "200 OK"), "far.example:22", "near.example:22")
	conn, r, resp := connectTo(t, p, "far.example:22")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	want := "CONNECT far.example:22 HTTP/1.1\r\nHost: far.example:22\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("me:s3cret")) + "\r\n\r\n"
	if got := <-heads; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	io.WriteString(conn, "SSH-2.0-x\n")
	if line, err := r.ReadString('\n'); line != "SSH-2.0-x\n" {
		t.Errorf("%q %v", line, err)
	}
	conn.Close()
	if e := p.event(t); e.Decision != Allow || e.Host != "far.example" {
		t.Errorf("%+v", e)
	}
	w.site("near.example", "93.184.216.40", 22, serveTCP(t, echo))
	if _, _, resp := connectTo(t, p, "near.example:22"); resp.StatusCode != http.StatusOK || w.dials()[1] != "93.184.216.40:22" {
		t.Errorf("%s %v", resp.Status, w.dials())
	}
}

// TestUpstreamSpokenToByTLS: what is asked for, and the password, go to the proxy that the
// name's certificate is for, and to no other.
func TestUpstreamSpokenToByTLS(t *testing.T) {
	ca := newTestCA(t)
	for name, works := range map[string]bool{"proxy.corp.example": true, "other.corp.example": false} {
		heads := make(chan string, 1)
		certificate := ca.leaf(t, time.Hour, name)
		w := newWorld()
		w.site("proxy.corp.example", "198.51.100.9", 8443, serveTCP(t, func(conn net.Conn) {
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
			if secure.Handshake() == nil {
				askedFor(heads, "200 OK")(secure)
			}
		}))
		u, err := ParseUpstream("https://me:s3cret@proxy.corp.example:8443", "")
		if err != nil {
			t.Fatal(err)
		}
		p := startProxy(t, w, func(c *Config) {
			c.Allow, c.Upstream, c.RootCAs = [][]string{{"far.example:22"}}, u, ca.pool()
		})
		conn, r, resp := connectTo(t, p, "far.example:22")
		if (resp.StatusCode == http.StatusOK) != works {
			t.Fatalf("a certificate for %s: %s", name, resp.Status)
		}
		if !slices.Contains(w.lookups(), "proxy.corp.example.") || slices.Contains(w.lookups(), "proxy.corp.example") {
			t.Errorf("looked up %q", w.lookups())
		}
		if !works {
			if e := p.event(t); e.Reason != ReasonUnreachable || len(heads) > 0 {
				t.Errorf("%+v, %d requests", e, len(heads))
			}
			continue
		}
		if head := <-heads; !strings.Contains(head, "CONNECT far.example:22 ") || !strings.Contains(head, "Proxy-Authorization") {
			t.Errorf("%q", head)
		}
		io.WriteString(conn, "SSH-2.0-x\n")
		if line, err := r.ReadString('\n'); line != "SSH-2.0-x\n" {
			t.Errorf("%q %v", line, err)
		}
	}
	if absolute("proxy") != "proxy" { // what the search list is for
		t.Error("a name without a dot has one")
	}
}

// TestUpstreamOpensNothing: an upstream is no way around lists and addresses.
func TestUpstreamOpensNothing(t *testing.T) {
	heads := make(chan string, 1)
	w, p := through(t, "http://198.51.100.9:3128", "", askedFor(heads, "200 OK"), "inner.example:22")
	w.site("inner.example", "169.254.169.254", 22, serveTCP(t, echo))
	for target, why := range map[string]Reason{"other.example:22": ReasonUnlisted, "169.254.169.254:22": ReasonAddress, "inner.example:22": ReasonAddress, "inner.example:23": ReasonUnlisted} {
		if _, _, resp := connectTo(t, p, target); resp.StatusCode == http.StatusOK {
			t.Errorf("%s: %s", target, resp.Status)
		}
		if e := p.event(t); e.Reason != why {
			t.Errorf("%s: %+v", target, e)
		}
	}
	if len(w.dials()) > 0 {
		t.Errorf("dialled %v", w.dials())
	}
}

// TestSilentNameHidesNoOther: that nobody answers for one name does not have others go unchecked.
func TestSilentNameHidesNoOther(t *testing.T) {
	t.Parallel()
	heads := make(chan string, 2)
	w := newWorld()
	w.hangs = "silent.example."
	w.site("inner.example", "169.254.169.254", 22, serveTCP(t, echo))
	w.sites["198.51.100.9:3128"] = serveTCP(t, askedFor(heads, "200 OK")).String()
	u, err := ParseUpstream("http://198.51.100.9:3128", "")
	if err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, w, func(c *Config) { c.Allow, c.Upstream = [][]string{{"silent.example:22", "inner.example:22"}}, u })
	conn, _, resp := connectTo(t, p, "silent.example:22")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the silent one: %s", resp.Status)
	}
	conn.Close()
	p.event(t)
	if _, _, resp := connectTo(t, p, "inner.example:22"); resp.StatusCode == http.StatusOK {
		t.Error("the other one is reached")
	}
	if e := p.event(t); e.Reason != ReasonAddress {
		t.Errorf("%+v", e)
	}
}

// TestBadUpstreams: one that lies, hangs, refuses or asks for a password is told by name,
// and no password with it.
func TestBadUpstreams(t *testing.T) {
	quiet := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) { io.WriteString(conn, text); quiet(conn) }
	}
	heads := make(chan string, 8)
	const http = "http://me:s3cret@198.51.100.9:3128"
	const socks = "socks5://me:s3cret@198.51.100.9:3128"
	for name, c := range map[string]struct {
		url    string
		answer func(net.Conn)
		says   string
	}{
		"hangs":               {http, quiet, "does not answer"},
		"hangs in the middle": {http, says("HTTP/1.1 200"), "does not answer"},
		"speaks no HTTP":      {http, says("220 mail.example ESMTP\r\n"), "does not answer with HTTP"},
		"never ends":          {http, says("HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 1<<20)), "does not answer with HTTP"},
		"says it goes on":     {http, says("HTTP/1.1 100 Continue\r\n\r\n"), "does not answer with HTTP"},
		"hangs up":            {http, func(conn net.Conn) { conn.Close() }, "198.51.100.9:3128: "},
		"wants a password":    {http, askedFor(heads, "407 Proxy Authentication Required"), "requires a user and a password"},
		"refuses":             {http, askedFor(heads, "403 Forbidden"), "refused the request: 403 Forbidden"},
		"is not there":        {"http://198.51.100.10:3128", quiet, "198.51.100.10:3128"},
		"SOCKS: hangs":        {socks, quiet, "does not answer"},
		"SOCKS: is none":      {socks, says("HTTP/1.1 400 Bad Request\r\n\r\n"), "does not answer with SOCKS 5"},
		"SOCKS: no method":    {socks, says("\x05\xff"), "requires a user and a password"},
		"SOCKS: wrong":        {socks, says("\x05\x02\x01\x01"), "requires a user and a password"},
		"SOCKS: refuses":      {socks, says("\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"), "refused the request: SOCKS error 2"},
		"SOCKS: odd address":  {socks, says("\x05\x00\x05\x00\x00\x09\x00\x00\x00\x00\x00\x00"), "does not answer with SOCKS 5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := through(t, c.url, "", c.answer, "far.example:22")
			_, r, resp := connectTo(t, p, "far.example:22")
			body, _ := io.ReadAll(io.LimitReader(r, resp.ContentLength))
			if resp.StatusCode == 200 || !strings.Contains(string(body), c.says) || !strings.Contains(string(body), "the upstream proxy") || strings.Contains(string(body), "s3cret") {
				t.Errorf("%s %s", resp.Status, body)
			}
			if e := p.event(t); e.Reason != ReasonUnreachable {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy":              "http://proxy:80",
		"https://p.example:8443/":   "https://p.example:8443",
		"socks5h://a:b@[::1]":       "socks5://[::1]:1080",
		"ftp://proxy":               "",
		"proxy:3128":                "",
		"http://":                   "",
		"http://a:s3cret@p:0":       "",
		"http://a:s3cret@p:99999":   "",
		"http://a:s3c%zzret@p:3128": "",
	} {
		u, err := ParseUpstream(text, "")
		if (err == nil) != (want != "") || err == nil && u.String() != want || err != nil && strings.Contains(err.Error(), "s3c") {
			t.Errorf("%q: %q %v", text, u, err)
		}
	}
	if (Upstream{}).carries(Target{}) {
		t.Error("none carries something")
	}
}
