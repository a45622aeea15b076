package egress

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkThroughput sends the same bytes directly and through the proxy, in turns, and
// reports both and their ratio: what else the machine does meets both alike. cpu/x is what
// the processors did for the one in relation to the other, all three parties included.
func BenchmarkThroughput(b *testing.B) {
	const size = 256 << 20
	source := serveTCP(b, func(conn net.Conn) {
		block := make([]byte, 256<<10)
		io.ReadFull(conn, block[:1])
		for range size / len(block) {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	})
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, source)
	p := startProxy(b, w, func(c *Config) { c.Allow, c.Audit = [][]string{{"a.example.org:7000"}}, func(Event) {} })
	var direct, proxied, cpu, seconds []float64
	for range b.N {
		wall, used := timed(b, func() {
			conn := dialTCP(b, source.String())
			drain(b, conn, conn, size)
		})
		wallVia, usedVia := timed(b, func() {
			conn, r, _ := connectTo(b, p, "a.example.org:7000")
			drain(b, conn, r, size)
		})
		direct, proxied = append(direct, size/wall/1e6), append(proxied, size/wallVia/1e6)
		seconds, cpu = append(seconds, wall/wallVia), append(cpu, usedVia/used)
	}
	b.ReportMetric(median(direct), "direct-MB/s")
	b.ReportMetric(median(proxied), "proxied-MB/s")
	b.ReportMetric(median(seconds), "of-direct")
	b.ReportMetric(median(cpu), "cpu/x")
}

func drain(b *testing.B, conn net.Conn, r io.Reader, size int) {
	b.Helper()
	defer conn.Close()
	conn.Write([]byte{0})
	buf := make([]byte, 256<<10)
	total := 0
	for {
		n, err := r.Read(buf)
		total += n
		if err != nil {
			break
		}
	}
	if total != size {
		b.Fatalf("%d bytes of %d", total, size)
	}
}

// timed gives how long f took, and how much time of the processors, in seconds.
func timed(b *testing.B, f func()) (wall, used float64) {
	b.Helper()
	before, start := processorTime(b), time.Now()
	f()
	return time.Since(start).Seconds(), (processorTime(b) - before).Seconds()
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkConnect is what one connection costs, directly and through the proxy.
func BenchmarkConnect(b *testing.B) {
	server := serveTCP(b, echo)
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, server)
	p := startProxy(b, w, func(c *Config) { c.Allow, c.Audit = [][]string{{"a.example.org:7000"}}, func(Event) {} })
	b.Run("direct", func(b *testing.B) {
		for range b.N {
			conn := dialTCP(b, server.String())
			conn.Write([]byte{0})
			conn.Read(make([]byte, 1))
			conn.Close()
		}
	})
	b.Run("proxied", func(b *testing.B) {
		for range b.N {
			conn, r, _ := connectTo(b, p, "a.example.org:7000")
			conn.Write([]byte{0})
			r.ReadByte()
			conn.Close()
		}
	})
}

// BenchmarkTerminated sends the same bytes over TLS: untouched, and where TLS ends at the
// proxy, which decrypts, parses and encrypts again.
func BenchmarkTerminated(b *testing.B) {
	const size = 64 << 20
	ca := newTestCA(b)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", r.URL.Query().Get("n"))
		n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		io.CopyN(w, zeros{}, n)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.leaf(b, time.Hour, apiHost, plainHost)}}
	server.StartTLS()
	defer server.Close()
	w := newWorld()
	w.site(apiHost, "93.184.216.34", 443, server.Listener.Addr())
	w.site(plainHost, "93.184.216.36", 443, server.Listener.Addr())
	p, authority := sealedFor(b, w, ca, func(c *Config) { c.Audit = func(Event) {} })
	via, _ := url.Parse("http://" + p.addr)
	for _, c := range []struct {
		name, host string
		roots      *x509.CertPool
		size       int64
	}{
		{"passed", plainHost, ca.pool(), size}, {"terminated", apiHost, authority.pool(), size},
		{"passed request", plainHost, ca.pool(), 2}, {"terminated request", apiHost, authority.pool(), 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			transport := &http.Transport{Proxy: http.ProxyURL(via), TLSClientConfig: &tls.Config{RootCAs: c.roots}}
			defer transport.CloseIdleConnections()
			b.SetBytes(c.size)
			for range b.N {
				req, _ := http.NewRequestWithContext(b.Context(), "GET", fmt.Sprintf("https://%s/?n=%d", c.host, c.size), nil)
				req.Header.Set("Authorization", "Bearer "+placeholder)
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != c.size || err != nil {
					b.Fatal(n, err)
				}
				resp.Body.Close()
			}
		})
	}
}

func BenchmarkParseHello(b *testing.B) {
	raw := helloFor(b, "example.org")
	b.SetBytes(int64(len(raw)))
	for range b.N {
		if _, _, err := readHello(bytes.NewReader(raw)); err != nil {
			b.Fatal(err)
		}
	}
}
