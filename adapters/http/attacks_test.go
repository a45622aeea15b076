package httpgate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
)

// with is headers and one more, or without one.
func with(headers map[string]string, key, value string) map[string]string {
	h := maps.Clone(headers)
	h[key] = value
	return h
}

// TestAttacksOnRequests: each row is refused with its code, and the same request without
// what is wrong with it is answered.
func TestAttacksOnRequests(t *testing.T) {
	b := newBench(t, func(s *Server) { s.failures = newBucket(time.Now, 1000, 1000) })
	page, program := b.signIn(), b.bearer()
	port := strings.TrimPrefix(b.hosts[1], "localhost:")
	home, tickets, known := req{"GET", "/", "", nil}, req{"POST", "/v1/tickets", "", program}, req{"GET", "/v1/login", "", page}
	change := func(q req, key, value string) req {
		if q.header == nil {
			q.header = map[string]string{}
		}
		q.header = with(q.header, key, value)
		return q
	}
	for name, c := range map[string]struct {
		bad    req
		status int
		code   protocol.Code
		twin   req
		good   int
	}{
		"a name that was pointed at loopback": {change(home, "Host", "evil.test:"+port), 421, codeHost, change(home, "Host", strings.ToUpper(b.page)), 200},
		"another port's name":                 {change(home, "Host", "127.0.0.1:1"), 421, codeHost, home, 200},
		"a host without its port":             {change(known, "Host", strings.TrimSuffix(b.page, ":"+port)), 421, codeHost, known, 204},
		"the page by its address":             {change(home, "Host", b.hosts[0]), 421, codeHost, home, 200},
		"the page of another start":           {change(home, "Host", pageName()+":"+port), 421, codeHost, home, 200},
		"a program by the page's name":        {change(tickets, "Host", b.page), 421, codeHost, tickets, 200},
		"another site's page":                 {change(tickets, "Origin", "http://evil.test"), 403, codeOrigin, change(tickets, "Origin", "http://"+b.hosts[0]), 200},
		"a page without an origin":            {change(tickets, "Origin", "null"), 403, codeOrigin, tickets, 200},
		"a page of another port":              {change(known, "Origin", "http://127.0.0.1:1"), 403, codeOrigin, known, 204},
		"a page of the same name by https":    {change(known, "Origin", "https://"+b.page), 403, codeOrigin, known, 204},
		"a page of the server's other name":   {change(known, "Origin", "http://localhost:"+port), 403, codeOrigin, known, 204},
		"fetched from another site":           {change(home, "Sec-Fetch-Site", "cross-site"), 403, codeOrigin, change(change(home, "Sec-Fetch-Site", "cross-site"), "Sec-Fetch-Mode", "navigate"), 200},
		"fetched from another port":           {change(known, "Sec-Fetch-Site", "same-site"), 403, codeOrigin, change(known, "Sec-Fetch-Site", "same-origin"), 204},
		"no token":                            {req{"POST", "/v1/tickets", "", nil}, 401, codeUnknown, tickets, 200},
		"another token":                       {change(tickets, "Authorization", "Bearer "+newSecret()), 401, codeUnknown, tickets, 200},
		"a token that is nearly right":        {change(tickets, "Authorization", "Bearer "+b.cfg.Token[:63]), 401, codeUnknown, tickets, 200},
		"the token by another scheme":         {change(tickets, "Authorization", "Basic "+b.cfg.Token), 401, codeUnknown, change(tickets, "Authorization", "bearer "+b.cfg.Token), 200},
		"the token in the query":              {req{"POST", "/v1/tickets?token=" + b.cfg.Token, "", program}, 400, codeQuery, tickets, 200},
		"an empty query":                      {req{"GET", "/?", "", nil}, 400, codeQuery, home, 200},
		"a page's login for a program's":      {req{"POST", "/v1/tickets", "", page}, 403, codeOrigin, tickets, 200},
		"the same without its origin":         {req{"POST", "/v1/tickets", "", with(page, "Origin", "")}, 401, codeUnknown, tickets, 200},
		"the token for a page's login":        {req{"GET", "/v1/login", "", program}, 401, codeUnknown, known, 204},
		"no cookie":                           {change(known, "Cookie", ""), 401, codeUnknown, known, 204},
		"another cookie":                      {change(known, "Cookie", cookieName+"="+newSecret()), 401, codeUnknown, known, 204},
		"others' cookies of the name":         {change(known, "Cookie", cookieName+"=x; "+cookieName+"=y"), 401, codeUnknown, change(known, "Cookie", cookieName+"=x; "+page["Cookie"]+"; "+cookieName+"=y"), 204},
		"the cookie without the key":          {change(known, PageKey, ""), 401, codeUnknown, known, 204},
		"the cookie with another key":         {change(known, PageKey, newSecret()), 401, codeUnknown, known, 204},
		"out of the files of the page":        {req{"GET", "/../../etc/passwd", "", nil}, 404, codeNotFound, req{"GET", "/main.js", "", nil}, 200},
		"out of them, spelled otherwise":      {req{"GET", "/%2e%2e/%2e%2e/etc/passwd", "", nil}, 404, codeNotFound, req{"GET", "/page.css", "", nil}, 200},
		"a file by another spelling":          {req{"GET", "/%6dain.js", "", nil}, 404, codeNotFound, req{"GET", "/main.js", "", nil}, 200},
		"a path with two slashes":             {req{"POST", "//v1/tickets", "", program}, 404, codeNotFound, tickets, 200},
		"a path that goes on":                 {req{"POST", "/v1/tickets/", "", program}, 404, codeNotFound, tickets, 200},
		"another method":                      {req{"PUT", "/v1/tickets", "", program}, 405, codeMethod, tickets, 200},
		"a method behind another":             {change(req{"GET", "/v1/tickets", "", program}, "X-HTTP-Method-Override", "POST"), 405, codeMethod, tickets, 200},
		"HEAD for GET":                        {req{"HEAD", "/", "", nil}, 405, "", home, 200},
		"TRACE":                               {req{"TRACE", "/", "", nil}, 405, codeMethod, home, 200},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, header := b.do(c.bad)
			if status != c.status || code(body) != string(c.code) {
				t.Errorf("answered with %d %s", status, body)
			}
			if strings.Contains(body, b.cfg.Token) || header.Get("Set-Cookie") != "" {
				t.Errorf("a refusal that gives something away: %s %v", body, header)
			}
			if status, body, _ := b.do(c.twin); status != c.good {
				t.Errorf("the twin is answered with %d %s", status, body)
			}
		})
	}
}

// TestAttacksOnSigningIn: each row is refused with its code, and a fresh link is taken.
func TestAttacksOnSigningIn(t *testing.T) {
	b := newBench(t, func(s *Server) { s.failures = newBucket(time.Now, 1000, 1000) })
	const login, used = "LOGIN", "USED"
	body := func(q req) req {
		switch q.body {
		case login:
			q.body = `{"ticket":"` + b.ticketOf(b.Link()) + `"}`
		case used:
			q.body = b.used()
		}
		return q
	}
	for name, c := range map[string]struct {
		bad    req
		status int
		code   protocol.Code
		twin   req
		good   int
	}{
		"a ticket that was used":                {req{"POST", "/v1/login", used, map[string]string{"Origin": b.origin()}}, 401, codeUnknown, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
		"a ticket that nobody made":             {req{"POST", "/v1/login", `{"ticket":"` + newWord() + `"}`, map[string]string{"Origin": b.origin()}}, 401, codeUnknown, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
		"a ticket from no page":                 {req{"POST", "/v1/login", login, nil}, 403, codeOrigin, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
		"a form":                                {req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin(), "Content-Type": "text/plain"}}, 415, codeContentType, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin(), "Content-Type": "application/json; charset=utf-8"}}, 200},
		"a member that does not belong":         {req{"POST", "/v1/login", `{"ticket":"x","more":1}`, map[string]string{"Origin": b.origin()}}, 400, protocol.CodeInvalidParams, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
		"a body that is too long":               {req{"POST", "/v1/login", `{"ticket":"` + strings.Repeat("x", 8<<10) + `"}`, map[string]string{"Origin": b.origin()}}, 413, codeTooLarge, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
		"a link for which there is a newer one": {req{"POST", "/v1/login", b.older(), map[string]string{"Origin": b.origin()}}, 401, codeUnknown, req{"POST", "/v1/login", login, map[string]string{"Origin": b.origin()}}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, header := b.do(body(c.bad))
			if status != c.status || code(text) != string(c.code) || header.Get("Set-Cookie") != "" {
				t.Errorf("answered with %d %s", status, text)
			}
			if status, text, _ := b.do(body(c.twin)); status != c.good {
				t.Errorf("the twin is answered with %d %s", status, text)
			}
		})
	}
}

// TestThePageIsForThisUser: a browser has a link on its command line, where every user of the machine can
// read it. Another user's connection gets nothing of the page for the ticket, and the ticket still opens
// it for this user. Only root can start a program of another user's; for everybody, a request that comes by
// no connection of ours stands in for one.
func TestThePageIsForThisUser(t *testing.T) {
	b := newBench(t, nil)
	ticket := b.ticketOf(b.Link())
	body := fmt.Sprintf(`{"ticket":%q}`, ticket)
	twin := func(t *testing.T) {
		t.Helper()
		if status, text, _ := b.do(req{"POST", "/v1/login", body, map[string]string{"Origin": b.origin()}}); status != 200 {
			t.Errorf("this user is answered with %d %s", status, text)
		}
	}
	t.Run("narrowed", func(t *testing.T) {
		for _, path := range []string{"/", "/main.js"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "http://"+b.page+path, nil)
			b.ServeHTTP(w, r)
			if w.Code != 403 || code(w.Body.String()) != string(codeUser) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if status, text, _ := b.do(req{"GET", path, "", nil}); status != 200 {
				t.Errorf("this user is answered with %d %s", status, text)
			}
		}
	})
	if os.Geteuid() != 0 {
		twin(t)
		t.Skip("only root can start a program of another user's; the narrowed twin ran")
	}
	const nobody = 65534
	cmd := exec.Command("/usr/bin/python3", "-c", `
import http.client, sys
address, page, body = sys.argv[1:]
c = http.client.HTTPConnection(address, timeout=10)
c.request("POST", "/v1/login", body, {"Host": page, "Origin": "http://" + page, "Content-Type": "application/json"})
r = c.getresponse()
print(r.status, r.read().decode(), r.getheader("Set-Cookie"))`, b.cfg.Listener.Addr().String(), b.page, body)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "403 ") || !strings.Contains(string(out), string(codeUser)) || !strings.HasSuffix(string(out), " None\n") {
		t.Errorf("another user is answered with %s, %v", out, err)
	}
	twin(t)
}

// older is a body with a ticket after which another was made.
func (b *bench) older() string {
	body := `{"ticket":"` + b.ticketOf(b.Link()) + `"}`
	b.Link()
	return body
}

// used is a body with a ticket that has opened the page already.
func (b *bench) used() string {
	body := `{"ticket":"` + b.ticketOf(b.Link()) + `"}`
	if status, text, _ := b.do(req{"POST", "/v1/login", body, map[string]string{"Origin": b.origin()}}); status != 200 {
		b.t.Fatal(status, text)
	}
	return body
}

// TestEveryRouteSaysWhoMayUseIt: each is asked for with nothing, and only the files of the
// page and signing in are not refused for it.
func TestEveryRouteSaysWhoMayUseIt(t *testing.T) {
	b := newBench(t, func(s *Server) { s.failures = newBucket(time.Now, 1000, 1000) })
	for path, methods := range b.routes {
		for method, r := range methods {
			if r.who == nobody {
				t.Errorf("%s %s is open to nobody", method, path)
			}
			_, file := b.cfg.Page[path]
			status, _, header := b.do(req{method, path, "", nil})
			if open := file || path == "/v1/login" && method == "POST"; open == (status == 401) {
				t.Errorf("%s %s: %d", method, path, status)
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
				if header.Get(name) != want {
					t.Errorf("%s %s: %s is %q", method, path, name, header.Get(name))
				}
			}
			if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s %s: policy %q", method, path, csp)
			}
			if path == "/v1/login" || !file {
				if header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %s may be kept", method, path)
				}
			}
		}
	}
	if no := (&Server{failures: newBucket(time.Now, 1, 1)}).admit(&http.Request{}, route{}); no == nil {
		t.Error("a route that says nothing is open")
	}
}

// TestCookieIsForThePageOnly: no script reads it, no other site sends it, and it ends
// with the browser.
func TestCookieIsForThePageOnly(t *testing.T) {
	b := newBench(t, nil)
	_, _, header := b.do(req{"POST", "/v1/login", `{"ticket":"` + b.ticketOf(b.Link()) + `"}`, map[string]string{"Origin": b.origin()}})
	set := header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("no %s in %q", want, set)
		}
	}
	if strings.Contains(set, "Max-Age") || strings.Contains(set, "Expires") || strings.Contains(set, "Domain") {
		t.Errorf("it outlives the browser, or goes elsewhere: %q", set)
	}
	page := b.signIn()
	if status, _, _ := b.do(req{"DELETE", "/v1/login", "", page}); status != 204 {
		t.Error("signing out", status)
	}
	if status, _, _ := b.do(req{"GET", "/v1/login", "", page}); status != 401 {
		t.Error("known after signing out", status)
	}
}

// TestTicketsAndLoginsEnd: each after its time, and never before.
func TestTicketsAndLoginsEnd(t *testing.T) {
	now := time.Now()
	s := newSecrets(func() time.Time { return now })
	link := s.newTicket()
	now = now.Add(TicketTime - 1)
	in, ok := s.redeem(link)
	if !ok || s.known([]string{in.cookie}, in.key) == nil {
		t.Fatal("in time, and refused")
	}
	late := s.newTicket()
	now = now.Add(TicketTime)
	if _, ok := s.redeem(late); ok {
		t.Error("a ticket works after its time")
	}
	now = now.Add(loginTime - TicketTime - 1)
	l := s.known([]string{in.cookie}, in.key)
	if l == nil {
		t.Fatal("a login has ended too early")
	}
	if end, ok := l.over.Deadline(); !ok || !end.Equal(l.end) {
		t.Errorf("it ends at %v, and its channels at %v", l.end, end)
	}
	now = now.Add(1)
	if s.known([]string{in.cookie}, in.key) != nil {
		t.Error("a login works after its time")
	}
}

// TestALinkEndsOlderOnes: of two links the newer works, and the browser that opens it ends
// the login of the one before.
func TestALinkEndsOlderOnes(t *testing.T) {
	s := newSecrets(time.Now)
	first, second := s.newTicket(), s.newTicket()
	if _, ok := s.redeem(first); ok {
		t.Error("the older link works")
	}
	one, ok := s.redeem(second)
	if !ok {
		t.Fatal("the newer link does not work")
	}
	link := s.newTicket()
	if s.known([]string{one.cookie}, one.key) == nil {
		t.Error("a link that nobody opened has ended a login")
	}
	two, ok := s.redeem(link)
	if !ok || s.known([]string{two.cookie}, two.key) == nil {
		t.Error("the second browser is not known")
	}
	if s.known([]string{one.cookie}, one.key) != nil {
		t.Error("the first browser is still known")
	}
}

// TestThePageHasANameOfItsOwn: nobody can know it before the start, and a start does not
// have that of another.
func TestThePageHasANameOfItsOwn(t *testing.T) {
	names := map[string]bool{}
	for range 100 {
		name := pageName()
		label, ok := strings.CutSuffix(name, ".localhost")
		if !ok || len(label) != 20 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz234567") != "" || names[name] {
			t.Fatal(name)
		}
		names[name] = true
	}
	a, b := newBench(t, nil), newBench(t, nil)
	if strings.Split(a.page, ":")[0] == strings.Split(b.page, ":")[0] || !strings.HasPrefix(a.Link(), "http://"+a.page+"/#ticket=") {
		t.Error(a.page, b.page, a.Link())
	}
}

// TestFailuresAreCounted: many are put off, and who shows what is right is not.
func TestFailuresAreCounted(t *testing.T) {
	now := time.Now()
	b := newBench(t, func(s *Server) { s.failures = newBucket(func() time.Time { return now }, 3, 1) })
	wrong := req{"POST", "/v1/tickets", "", map[string]string{"Authorization": "Bearer " + newSecret()}}
	for i := range 5 {
		status, body, header := b.do(wrong)
		if want := map[bool]int{true: 401, false: 429}[i < 3]; status != want {
			t.Errorf("failure %d is answered with %d %s", i, status, body)
		}
		if (header.Get("Retry-After") != "") != (i >= 3) {
			t.Errorf("failure %d: Retry-After %q", i, header.Get("Retry-After"))
		}
	}
	if status, body, _ := b.do(req{"POST", "/v1/tickets", "", b.bearer()}); status != 200 {
		t.Errorf("the right token is put off: %d %s", status, body)
	}
	now = now.Add(time.Second)
	if status, _, _ := b.do(wrong); status != 401 {
		t.Errorf("after a second: %d", status)
	}
}

// upgrade asks for the channel of the page as a browser does.
func (b *bench) upgrade(h map[string]string, protocols ...string) (*websocket.Conn, int) {
	b.t.Helper()
	header := http.Header{}
	for k, v := range h {
		if v != "" && k != PageKey {
			header.Set(k, v)
		}
	}
	c, res, err := websocket.Dial(b.t.Context(), "ws://"+b.hosts[0]+"/v1/live", &websocket.DialOptions{
		HTTPClient: b.http, HTTPHeader: header, Host: cmp.Or(h["Host"], b.page), Subprotocols: protocols})
	if res == nil {
		b.t.Fatal(err)
	}
	if err == nil {
		b.t.Cleanup(func() { c.CloseNow() })
	}
	return c, res.StatusCode
}

// TestChannelIsForThePageOnly: a WebSocket is not bound by the same-origin policy, so the
// handshake has to be.
func TestChannelIsForThePageOnly(t *testing.T) {
	b := newBench(t, func(s *Server) { s.failures = newBucket(time.Now, 1000, 1000) })
	page := b.signIn()
	protocols := []string{"sandgate.page", keyProtocol + page[PageKey]}
	for name, c := range map[string]struct {
		header    map[string]string
		protocols []string
		status    int
	}{
		"another site's page":         {with(page, "Origin", "http://evil.test"), protocols, 403},
		"another port's page":         {with(page, "Origin", "http://127.0.0.1:1"), protocols, 403},
		"the address for the name":    {with(with(page, "Host", b.hosts[0]), "Origin", "http://"+b.hosts[0]), protocols, 421},
		"no cookie":                   {with(page, "Cookie", ""), protocols, 401},
		"no key":                      {page, protocols[:1], 401},
		"another key":                 {page, []string{"sandgate.page", keyProtocol + newSecret()}, 401},
		"two keys":                    {page, append(protocols, keyProtocol+newSecret()), 401},
		"the token":                   {b.bearer(), protocols[:1], 401},
		"a name pointed at loopback":  {with(with(page, "Host", "evil.test"), "Origin", "http://evil.test"), protocols, 421},
		"as it should be (the twin)":  {page, protocols, 101},
		"as it should be, once again": {page, protocols, 101},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status := b.upgrade(c.header, c.protocols...)
			if status != c.status {
				t.Errorf("answered with %d, want %d", status, c.status)
			}
			if conn != nil && conn.Subprotocol() != "sandgate.page" {
				t.Errorf("the key comes back: %q", conn.Subprotocol())
			}
		})
	}
}

// TestChannelEndsWithItsLogin: signing out ends the channels of a browser, and so does
// another browser that signs in; its own goes on.
func TestChannelEndsWithItsLogin(t *testing.T) {
	b := newBench(t, nil)
	open := func(page map[string]string) *websocket.Conn {
		c, status := b.upgrade(page, "sandgate.page", keyProtocol+page[PageKey])
		if status != 101 {
			t.Fatal(status)
		}
		if _, text, err := c.Read(t.Context()); err != nil || !strings.Contains(string(text), `"proof":"`) {
			t.Fatalf("%s %v", text, err)
		}
		return c
	}
	page := b.signIn()
	channels := []*websocket.Conn{open(page), open(page)}
	other := open(b.signIn())
	for i, c := range channels {
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Errorf("channel %d goes on", i)
		}
	}
	if err := other.Write(t.Context(), websocket.MessageText, []byte(`{"ask":1,"do":"board","params":{"name":"status"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, text, err := other.Read(t.Context()); err != nil || !strings.Contains(string(text), `"answer":1`) {
		t.Errorf("the twin: %s %v", text, err)
	}
	if status, _, _ := b.do(req{"DELETE", "/v1/login", "", page}); status != 401 {
		t.Error("a browser that is not known any more signs another out:", status)
	}
	b.secrets.signOut()
	if _, _, err := other.Read(t.Context()); err == nil {
		t.Error("the channel goes on after signing out")
	}
}

// TestChannelEndsWithWhatItCannotRead: a message of another kind, or one that is too
// long, ends that channel; the others go on.
func TestChannelEndsWithWhatItCannotRead(t *testing.T) {
	b := newBench(t, nil)
	page := b.signIn()
	protocols := []string{"sandgate.page", keyProtocol + page[PageKey]}
	good, _ := b.upgrade(page, protocols...)
	if _, text, err := good.Read(t.Context()); err != nil || !strings.Contains(string(text), "hello") {
		t.Fatalf("%s %v", text, err)
	}
	for name, c := range map[string]struct {
		kind websocket.MessageType
		text string
		code websocket.StatusCode
	}{
		"no JSON":       {websocket.MessageText, "{", websocket.StatusPolicyViolation},
		"unknown field": {websocket.MessageText, `{"ask":1,"do":"status","params":{},"x":1}`, websocket.StatusPolicyViolation},
		"twice":         {websocket.MessageText, `{"ask":1,"ask":2,"do":"status"}`, websocket.StatusPolicyViolation},
		"binary":        {websocket.MessageBinary, `{"ask":1,"do":"status","params":{}}`, -1},
		"oversized":     {websocket.MessageText, strings.Repeat(" ", protocol.MaxMessage+1), websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status := b.upgrade(page, protocols...)
			if status != 101 {
				t.Fatal(status)
			}
			_, _, _ = conn.Read(t.Context())                    // hello
			_ = conn.Write(t.Context(), c.kind, []byte(c.text)) // it may be cut off while it sends
			if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != c.code {
				t.Errorf("ended with %v, want code %d", err, c.code)
			}
			if err := good.Write(t.Context(), websocket.MessageText, []byte(`{"ask":1,"do":"board","params":{"name":"status"}}`)); err != nil {
				t.Fatal(err)
			}
			if _, text, err := good.Read(t.Context()); err != nil || !strings.Contains(string(text), `"answer":1`) {
				t.Errorf("another channel: %s %v", text, err)
			}
		})
	}
}

// TestSlowPeersAreDropped: what sends its head slowly, or nothing, has no connection for
// long, and while it has, everybody else is answered.
func TestSlowPeersAreDropped(t *testing.T) {
	b := newBench(t, func(s *Server) { s.headerTime = 50 * time.Millisecond })
	for name, text := range map[string]string{"nothing": "", "half a head": "GET / HTTP/1.1\r\nHost: x\r\nX-A: "} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", b.hosts[0])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, text)
			if status, _, _ := b.do(req{"GET", "/", "", nil}); status != 200 {
				t.Error("somebody else is answered with", status)
			}
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("it is still connected: %v", err)
			}
		})
	}
}

// TestHeadsAreBounded: a head that is too long is refused while it is read.
func TestHeadsAreBounded(t *testing.T) {
	b := newBench(t, nil)
	for size, want := range map[int]string{64 << 10: "431", 1 << 10: "200"} {
		c, err := net.Dial("tcp", b.hosts[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nX-A: %s\r\n\r\n", b.page, strings.Repeat("a", size))
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("a head of %d bytes: %q %v", size, line, err)
		}
	}
}

// TestServerEndsWithItsChannels: open pages and half-sent requests do not hold it up, and
// what waited goes on waiting.
func TestServerEndsWithItsChannels(t *testing.T) {
	b := newBench(t, nil)
	ended := b.call(b.session("a"), "echo hi")
	b.pending(1)
	page := b.signIn()
	conn, _ := b.upgrade(page, "sandgate.page", keyProtocol+page[PageKey])
	_, _, _ = conn.Read(t.Context()) // hello
	if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), "requested") {
		t.Fatalf("%s %v", text, err)
	}
	half, err := net.Dial("tcp", b.hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	fmt.Fprint(half, "POST /v1/login HTTP/1.1\r\n")
	b.stop()
	if _, _, err := conn.Read(t.Context()); err == nil {
		t.Error("the channel goes on")
	}
	b.pending(1)
	if _, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", b.hosts[0]); err == nil {
		t.Error("it still listens")
	}
	b.approvals.Answer(b.pending(1)[0].ID, answerAllow())
	if o := <-ended; o.text != "hi\n" {
		t.Errorf("%+v", o)
	}
}
