package egress

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// BenchmarkThroughput sends the same bytes directly and through the proxy, in one
// run, so that the two numbers can be compared.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
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
	drain := func(b *testing.B, conn net.Conn, r io.Reader) {
		b.Helper()
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
		conn.Close()
	}
	b.Run("direct", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			conn := dialTCP(b, source.String())
			drain(b, conn, conn)
		}
	})
	b.Run("proxied", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			conn, r, _ := connectTo(b, p, "a.example.org:7000")
			drain(b, conn, r)
		}
	})
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

func BenchmarkParseHello(b *testing.B) {
	raw := helloFor(b, "example.org")
	b.SetBytes(int64(len(raw)))
	for range b.N {
		if _, _, err := readHello(bytes.NewReader(raw)); err != nil {
			b.Fatal(err)
		}
	}
}
