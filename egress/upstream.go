package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// An Upstream is a proxy that connections leave this machine by, as companies have them.
// The zero value means no upstream proxy. The operator names it: its address is
// not checked.
//
// It gets names, and looks them up: where such a proxy is needed, names of the outside
// often mean nothing on this machine. Those that do are checked first, as without it; what
// the upstream's own look-up leads to is the upstream's to refuse.
type Upstream struct {
	scheme string // "http", "https" or "socks5"
	addr   string // HOST:PORT
	name   string // the scheme and addr, for people
	user   *url.Userinfo
	direct func(*url.URL) (*url.URL, error) // nil where a host is reached without it
}

// ParseUpstream reads SCHEME://[USER:PASSWORD@]HOST[:PORT], of http, https, socks5 and
// socks5h. noProxy are the hosts that are reached without it, as in NO_PROXY.
func ParseUpstream(text, noProxy string) (Upstream, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // the error would repeat a password
		return Upstream{}, errors.New("is not SCHEME://HOST:PORT")
	}
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080"}
	scheme := u.Scheme
	if scheme == "socks5h" {
		scheme = "socks5"
	}
	port, known := ports[scheme]
	if !known {
		return Upstream{}, fmt.Errorf("has the scheme %q; use http, https or socks5", u.Scheme)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Upstream{}, fmt.Errorf("has the invalid port %q", port)
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	proxies := httpproxy.Config{HTTPProxy: "http://" + addr, HTTPSProxy: "http://" + addr, NoProxy: noProxy}
	return Upstream{scheme: scheme, addr: addr, name: scheme + "://" + addr, user: u.User, direct: proxies.ProxyFunc()}, nil
}

// WithUser is u with a user and a password.
func (u Upstream) WithUser(user, password string) Upstream {
	u.user = url.UserPassword(user, password)
	return u
}

// String is u without its password.
func (u Upstream) String() string { return u.name }

// carries reports whether t is reached through u.
func (u Upstream) carries(t Target) bool {
	if u.scheme == "" {
		return false
	}
	through, err := u.direct(&url.URL{Scheme: "https", Host: t.String()})
	return err == nil && through != nil
}

// localLookup is how long a name is looked up here that the upstream can look up too.
const localLookup = 2 * time.Second

// maxSilent bounds how many names without an answer are remembered.
const maxSilent = 4096

// through connects to t by way of the upstream.
func (c *client) through(ctx context.Context, a *attempt, t Target) (*stream, error) {
	if err := c.checkKnown(ctx, t); err != nil {
		return nil, err
	}
	u := c.cfg.Upstream
	conn, err := c.dialUpstream(ctx, u)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() }) // it may never answer
		err = u.connect(conn, t)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, refuse(ReasonUnreachable, t, "the upstream proxy %s does not answer", u)
	case err != nil:
		return nil, refuse(ReasonUnreachable, t, "the upstream proxy %s: %w", u, err)
	}
	return c.upstream(a, conn), nil
}

// checkKnown refuses a name that leads to a special address, as far as this machine can
// tell. If there is no resolver to try, it asks once for each name: a name that was made
// to have no answer says nothing about others.
func (c *client) checkKnown(ctx context.Context, t Target) error {
	if _, silent := c.silent.Load(t.Host.String()); silent {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, localLookup)
	defer cancel()
	_, err := c.addresses(soon, t)
	var r *Refusal
	if errors.As(err, &r) && r.Reason == ReasonAddress {
		return r
	}
	if soon.Err() != nil && c.silences.Add(1) <= maxSilent {
		c.silent.Store(t.Host.String(), true)
	}
	return nil
}

// dialUpstream connects to the upstream itself.
func (c *client) dialUpstream(ctx context.Context, u Upstream) (net.Conn, error) {
	host, port, err := net.SplitHostPort(u.addr)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = c.cfg.Resolver.LookupNetIP(ctx, "ip", absolute(host)); err != nil {
		return nil, err
	}
	var errs []error
	for i, addr := range addrs {
		n, _ := strconv.ParseUint(port, 10, 16) // ParseUpstream has checked it
		conn, err := c.dialOne(ctx, netip.AddrPortFrom(addr.Unmap(), uint16(n)), len(addrs)-i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if u.scheme != "https" {
			return conn, nil
		}
		secure := tls.Client(conn, &tls.Config{ServerName: strings.TrimSuffix(host, "."), RootCAs: c.cfg.RootCAs})
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
	return nil, errors.Join(errs...)
}

// absolute is a name that no search list is added to, which others on the network may
// answer for. A name without a dot is meant for that list.
func absolute(name string) string {
	if strings.Contains(name, ".") && !strings.HasSuffix(name, ".") {
		return name + "."
	}
	return name
}

var errUpstreamUser = errors.New("requires a user and a password")

// connect asks the upstream for a connection to t.
func (u Upstream) connect(conn net.Conn, t Target) error {
	if u.scheme == "socks5" {
		return u.connectSOCKS(conn, t)
	}
	request := "CONNECT " + t.String() + " HTTP/1.1\r\nHost: " + t.String() + "\r\n"
	if u.user != nil {
		password, _ := u.user.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	status, err := readStatus(conn)
	switch {
	case err != nil:
		return err
	case status == http.StatusProxyAuthRequired:
		return errUpstreamUser
	case status/100 != 2:
		return fmt.Errorf("refused the request: %d %s", status, http.StatusText(status))
	}
	return nil
}

// maxUpstreamHead bounds an upstream's answer.
const maxUpstreamHead = 16 << 10

// readStatus reads the head of an HTTP answer and nothing behind it, which is the
// server's. Of the head only the status is used: the rest is not ours to pass on.
func readStatus(r io.Reader) (int, error) {
	var head []byte
	var b [1]byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) == maxUpstreamHead || len(head) == 5 && string(head) != "HTTP/" {
			return 0, errors.New("does not answer with HTTP")
		}
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return 0, fmt.Errorf("read its answer: %w", err)
		}
		head = append(head, b[0])
	}
	var minor, status int
	if _, err := fmt.Sscanf(string(head), "HTTP/1.%d %3d", &minor, &status); err != nil || status < 200 || status > 599 {
		return 0, errors.New("does not answer with HTTP")
	}
	return status, nil
}

// connectSOCKS is RFC 1928, with RFC 1929 where there is a user.
func (u Upstream) connectSOCKS(conn net.Conn, t Target) error {
	const version, none, byPassword = 5, 0, 2
	methods := []byte{none}
	if u.user != nil {
		methods = append(methods, byPassword)
	}
	if _, err := conn.Write(append([]byte{version, byte(len(methods))}, methods...)); err != nil {
		return err
	}
	var chosen [2]byte
	if _, err := io.ReadFull(conn, chosen[:]); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	switch {
	case chosen[0] != version:
		return errors.New("does not answer with SOCKS 5")
	case chosen[1] == byPassword && u.user != nil:
		if err := u.logIn(conn); err != nil {
			return err
		}
	case chosen[1] != none:
		return errUpstreamUser
	}
	request := []byte{version, 1, 0}
	switch addr := t.Host.Addr(); {
	case !t.Host.IsAddr():
		request = append(append(request, 3, byte(len(t.Host.Name()))), t.Host.Name()...)
	case addr.Is4():
		request = append(append(request, 1), addr.AsSlice()...)
	default:
		request = append(append(request, 4), addr.AsSlice()...)
	}
	if _, err := conn.Write(append(request, byte(t.Port>>8), byte(t.Port))); err != nil {
		return err
	}
	var reply [5]byte // and the first byte of its address
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	rest, known := map[byte]int{1: 4 - 1, 3: int(reply[4]), 4: 16 - 1}[reply[3]]
	switch {
	case reply[0] != version || !known:
		return errors.New("does not answer with SOCKS 5")
	case reply[1] != 0:
		return fmt.Errorf("refused the request: SOCKS error %d", reply[1])
	}
	_, err := io.ReadFull(conn, make([]byte, rest+2))
	return err
}

func (u Upstream) logIn(conn net.Conn) error {
	user := u.user.Username()
	password, _ := u.user.Password()
	if len(user) > 255 || len(password) > 255 {
		return errors.New("the user or the password is too long for SOCKS 5")
	}
	text := append(append([]byte{1, byte(len(user))}, user...), byte(len(password)))
	if _, err := conn.Write(append(text, password...)); err != nil {
		return err
	}
	var answer [2]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	if answer[1] != 0 {
		return errUpstreamUser
	}
	return nil
}
