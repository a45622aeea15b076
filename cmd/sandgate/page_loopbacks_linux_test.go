package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// TestPageAndTheOtherLoopback: a browser that looks names below localhost up by itself, as
// a person's does, tries ::1 before 127.0.0.1. Another user who listens there would be
// given the ticket of the link, and later the cookie and the key; there is no room for one.
func TestPageAndTheOtherLoopback(t *testing.T) {
	otherLoopbackIsOurs(t, newBrowser(t), "theirs")
}

// TestPageAndTheOtherLoopbackInFirefox is the same in Firefox, which tries 127.0.0.1 first.
func TestPageAndTheOtherLoopbackInFirefox(t *testing.T) {
	otherLoopbackIsOurs(t, newFirefox(t), "ours")
}

func otherLoopbackIsOurs(t *testing.T, b *browser, shown string) {
	// How it would be: of two owners of one port the browser shows one, and nobody can tell.
	ours := answering(t, "127.0.0.1:0", "ours")
	_, port, _ := net.SplitHostPort(ours)
	theirs := answering(t, "[::1]:"+port, "theirs")
	b.open("http://aaaaaaaaaaaaaaaaaaaa.localhost:" + port + "/")
	b.see(shown)

	// Where somebody listens at either, sandgate does not start with that port.
	for _, taken := range []string{ours, theirs} {
		_, port, _ := net.SplitHostPort(taken)
		var errs bytes.Buffer
		dir := t.TempDir()
		code := execute(newApp(strings.NewReader(""), &bytes.Buffer{}, &errs), []string{"serve", "--socket", dir + "/a", "--operator-socket", dir + "/o", "--http", "127.0.0.1:" + port})
		if code != cli.ExitInternal || !strings.Contains(errs.String(), "address already in use") || !strings.Contains(errs.String(), "choose another port") {
			t.Errorf("beside %s: exit %d: %s", taken, code, errs.String())
		}
	}

	s := newServing(t, pageConfig)
	p := &person{browser: b, serving: s, t: t, session: s.session("coder")}
	_, port, _ = net.SplitHostPort(s.address)
	for _, at := range []string{"[::1]:" + port, "[::]:" + port, "127.0.0.1:" + port} {
		if l, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another user listens at %s: %v %v", at, l, err)
		}
	}
	p.open(s.link())
	p.see("Nothing is waiting")
	ch := p.ask("echo by both")
	p.press("y", false)
	if text, e := p.ran(ch); text != "by both\n" {
		t.Errorf("%q %v", text, e)
	}
	p.reload()
	p.see("Nothing is waiting")
}

// answering is the address of a server of another user's that says one thing.
func answering(t *testing.T, address, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, fmt.Sprintf("<p>%s</p>", text))
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}
