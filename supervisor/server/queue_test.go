package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// socketPair is a connection of each of a Unix socket's two ends.
func socketPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// TestQueueKeepsLinesWhole: lines of several writers at once, short ones and such as no
// socket takes at once, come whole and each writer's in their order, however the client
// reads.
func TestQueueKeepsLinesWhole(t *testing.T) {
	const writers, each, bound = 3, 60, 1 << 20
	server, client := socketPair(t)
	q := newQueue(server, bound, time.Minute)
	lengths := []int{1, 100, 300 << 10, 5, 64 << 10, 2 * bound, 1}
	text := func(writer, i int) string {
		return fmt.Sprintf("%d %d %s", writer, i, strings.Repeat("x", lengths[(writer+i)%len(lengths)]))
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				line := []byte(text(w, i) + "\n")
				q.push(line)
				clear(line) // it is ours again
			}
		})
	}
	r := protocol.NewReader(client)
	next := [writers]int{}
	for n := range writers * each {
		if n%20 == 0 {
			time.Sleep(5 * time.Millisecond) // and the queue fills
		}
		line, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		var w, i int
		if _, err := fmt.Sscan(string(line[:min(len(line), 20)]), &w, &i); err != nil || i != next[w] || string(line) != text(w, i) {
			t.Fatalf("line %d: %.20q, %v", n, line, err)
		}
		next[w]++
	}
	wg.Wait()
	q.close()
}

// TestQueueIsBounded: of a client that does not read no more is held than the bound, and
// what the socket itself takes.
func TestQueueIsBounded(t *testing.T) {
	const bound = 256 << 10
	server, _ := socketPair(t)
	q := newQueue(server, bound, 200*time.Millisecond)
	line := append(bytes.Repeat([]byte("x"), 10<<10), '\n')
	pushed := 0
	for !q.broken() {
		q.push(line)
		pushed += len(line)
		q.mu.Lock()
		if q.bytes > bound || q.lines != nil && q.lines.Len() > bound {
			t.Errorf("%d bytes are held", q.bytes)
		}
		q.mu.Unlock()
	}
	if !errors.Is(q.err, os.ErrDeadlineExceeded) {
		t.Error(q.err)
	}
	if pushed > 8<<20 {
		t.Errorf("%d bytes went to a client that reads nothing", pushed)
	}
	q.push(line) // returns
	q.close()
}

// TestOutputWaitsEarly: a program's output does not fill the queue of a client that does
// not read, and an answer still finds room in it.
func TestOutputWaitsEarly(t *testing.T) {
	server, client := socketPair(t)
	c := newConn(&Server{cfg: Config{QueueBytes: 32 << 20, StallTimeout: time.Minute}}, server, unixsock.Peer{})
	held := func() int {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.bytes
	}
	piece := bytes.Repeat([]byte("x"), 64<<10)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 64 {
			c.notify(protocol.MethodToolOutput, protocol.RawOutput{CallID: "c", Stream: protocol.Stdout, Data: piece})
		}
	})
	for held() < maxAhead-2*len(piece) {
		time.Sleep(time.Millisecond)
	}
	c.reply(protocol.StringID("a"), strings.Repeat("y", 2<<20), nil) // returns
	if n := held(); n > maxAhead+2<<20+1000 {
		t.Errorf("%d bytes are held", n)
	}
	r := protocol.NewReader(client)
	for range 65 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	c.close()
}

// TestRawOutputStaysWhole: raw pieces of several calls at once and lines between them come whole
// and in order, also to a client that reads slowly, and hold back no more than other output.
func TestRawOutputStaysWhole(t *testing.T) {
	server, client := socketPair(t)
	c := newConn(&Server{cfg: Config{QueueBytes: 32 << 20, StallTimeout: time.Minute}}, server, unixsock.Peer{})
	c.raw = true
	const calls, each = 3, 100
	sizes := []int{1, 64 << 10, 100, 4 << 10, 64 << 10}
	var wg sync.WaitGroup
	for n := range calls {
		wg.Go(func() {
			piece := make([]byte, 64<<10)
			for i := range each {
				data := piece[:sizes[(n+i)%len(sizes)]]
				for j := range data {
					data[j] = "\n{\xff"[(i+j)%3]
				}
				c.notify(protocol.MethodToolOutput, protocol.RawOutput{CallID: protocol.CallID(fmt.Sprint(n)), Stream: protocol.Stdout, Data: data})
				clear(data) // it is ours again
				c.notify(protocol.MethodToolState, protocol.ToolState{CallID: protocol.CallID(fmt.Sprint(n)), State: protocol.Running})
				c.out.mu.Lock()
				held := c.out.bytes
				c.out.mu.Unlock()
				if held > maxAhead+100_000 {
					t.Errorf("%d bytes are held", held)
				}
			}
		})
	}
	r := protocol.NewReader(client)
	next := map[protocol.CallID]int{}
	for n := range 2 * calls * each {
		if n%50 == 0 {
			time.Sleep(time.Millisecond)
		}
		line, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		o, ok := protocol.ParseRawHeader(line)
		if !ok {
			if m, err := protocol.ParseFromServer(line); err != nil || m.Method != protocol.MethodToolState {
				t.Fatalf("%q, %v", line, err)
			}
			continue
		}
		i := next[o.CallID]
		next[o.CallID]++
		var data []byte
		for int64(len(data)) < o.RawBytes {
			part, err := r.NextRaw(o.RawBytes - int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, part...)
		}
		call := int(o.CallID[0] - '0')
		if len(data) != sizes[(call+i)%len(sizes)] {
			t.Fatalf("call %d, piece %d: %d bytes", call, i, len(data))
		}
		for j, b := range data {
			if b != "\n{\xff"[(i+j)%3] {
				t.Fatalf("call %d, piece %d, byte %d: %q", call, i, j, b)
			}
		}
	}
	wg.Wait()
	c.close()
}

// TestQueueAfterAPause: a time limit that has passed while nothing was sent is no reason
// not to send.
func TestQueueAfterAPause(t *testing.T) {
	server, client := socketPair(t)
	q := newQueue(server, 1<<20, 50*time.Millisecond)
	r := protocol.NewReader(client)
	for range 3 {
		q.push(append(bytes.Repeat([]byte("x"), 600<<10), '\n')) // more than a socket takes at once
		if line, err := r.Next(); err != nil || len(line) != 600<<10 {
			t.Fatal(len(line), err)
		}
		time.Sleep(120 * time.Millisecond)
	}
	q.close()
}
