package egress

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

const (
	placeholder = "sandgate-credential-abcdefghijklmnopqrstuvwx"
	secret      = "s3cret=/+value"
)

// guardedBy is a proxy with one credential for the service api, and an allowed
// host beside it that shows what it gets.
func guardedBy(t *testing.T, api, elsewhere *origin) *proxy {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 80, elsewhere)
	w.sites[api.Addr.String()] = api.Addr.String()
	return startProxy(t, w, func(c *Config) {
		rule := "api=" + api.Addr.String()
		c.Allow = [][]string{{"a.example.org", rule}}
		c.Credentials = []Credential{{Name: "API_KEY", Placeholder: placeholder, Secret: secret, Service: rule}}
	})
}

func (o *origin) port() string {
	return o.Addr.String()[strings.LastIndexByte(o.Addr.String(), ':')+1:]
}

// TestPlaceholdersBecomeSecretsForOneService: in the header, in each way in which a
// client can ask, and not in the line or the body, which servers log.
func TestPlaceholdersBecomeSecretsForOneService(t *testing.T) {
	api := rawOrigin(t, ok)
	p := guardedBy(t, api, rawOrigin(t, ok))
	basicOf := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)) }
	head := fmt.Sprintf("Host: api:%s\r\nAuthorization: Bearer %s\r\nX-Both: %[2]s, %[2]s\r\nX-Basic: %s\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%[2]s",
		api.port(), placeholder, basicOf(placeholder), len(placeholder))
	if resp, _ := roundTrip(t, p, fmt.Sprintf("POST http://api:%s/%s HTTP/1.1\r\n%s", api.port(), placeholder, head), "POST"); resp.StatusCode != 200 {
		t.Fatalf("plain: %d", resp.StatusCode)
	}
	p.event(t)
	conn, r, _ := connectTo(t, p, "api:"+api.port())
	fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\n%s", placeholder, head)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("CONNECT: %v, %v", resp, err)
	}
	conn.Close()
	p.event(t)
	seen := api.requests()
	if len(seen) != 2 {
		t.Fatalf("%d requests", len(seen))
	}
	for _, got := range seen {
		for _, want := range []string{
			"POST /" + placeholder + " HTTP/1.1\r\n",
			"Authorization: Bearer " + secret + "\r\n", "X-Both: " + secret + ", " + secret + "\r\n",
			"X-Basic: " + basicOf(secret) + "\r\n", "Accept-Encoding: identity\r\n",
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

// TestPlaceholdersElsewhereAreAlarms: wherever the placeholder is in what is sent to
// another host, the connection is refused, the host does not see it, and the log says so.
func TestPlaceholdersElsewhereAreAlarms(t *testing.T) {
	const to = "http://a.example.org/"
	head := "Host: a.example.org\r\n"
	body := func(framing, text string) string { return head + framing + "\r\n\r\n" + text }
	pair := base64.StdEncoding.EncodeToString([]byte("u:" + placeholder))
	half := len(placeholder) / 2
	for name, request := range map[string]string{
		"a header":             "GET " + to + " HTTP/1.1\r\n" + head + "X: a" + placeholder + "b\r\n\r\n",
		"in capitals":          "GET " + to + " HTTP/1.1\r\n" + head + "X: " + strings.ToUpper(placeholder) + "\r\n\r\n",
		"a header's name":      "GET " + to + " HTTP/1.1\r\n" + head + placeholder + ": x\r\n\r\n",
		"Basic authentication": "GET " + to + " HTTP/1.1\r\n" + head + "Authorization: basic " + pair + "\r\n\r\n",
		"the path":             "GET " + to + placeholder + " HTTP/1.1\r\n" + head + "\r\n",
		"the query":            "GET " + to + "?q=" + placeholder + " HTTP/1.1\r\n" + head + "\r\n",
		"the body":             "POST " + to + " HTTP/1.1\r\n" + body(fmt.Sprintf("Content-Length: %d", len(placeholder)+1), "x"+placeholder),
		"chunks": "POST " + to + " HTTP/1.1\r\n" + body("Transfer-Encoding: chunked",
			fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, placeholder[:half], len(placeholder)-half, placeholder[half:])),
		"a name":           "GET http://" + placeholder + ".a.example.org/ HTTP/1.1\r\nHost: " + placeholder + ".a.example.org\r\n\r\n",
		"CONNECT":          "CONNECT " + placeholder + ".a.example.org:443 HTTP/1.1\r\n\r\n",
		"a tunnel":         "CONNECT a.example.org:80 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n" + head + "X: " + placeholder + "\r\n\r\n",
		"a tunnel's body":  "CONNECT a.example.org:80 HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\n" + body("Content-Length: 99", placeholder),
		"another protocol": "CONNECT a.example.org:80 HTTP/1.1\r\n\r\n\x00\x01" + placeholder,
	} {
		t.Run(name, func(t *testing.T) {
			api, elsewhere := rawOrigin(t, ok), rawOrigin(t, ok)
			p := guardedBy(t, api, elsewhere)
			conn := dialTCP(t, p.addr)
			io.WriteString(conn, request)
			conn.CloseWrite()
			answer, _ := io.ReadAll(conn)
			e := p.event(t)
			if e.Reason != ReasonCredential || e.Decision != Deny || !strings.Contains(e.Detail, "API_KEY") {
				t.Errorf("recorded %+v; answered %q", e, answer)
			}
			p.stop()
			for _, got := range append(elsewhere.requests(), api.requests()...) {
				if strings.Contains(got, placeholder) || strings.Contains(got, secret) {
					t.Errorf("the host saw %q", got)
				}
			}
		})
	}
}

// TestSpentPlaceholdersAreAlarms: one that another call was given is good for nothing.
func TestSpentPlaceholdersAreAlarms(t *testing.T) {
	api := rawOrigin(t, ok)
	p := startProxy(t, newWorld(), func(c *Config) {
		plain("api=" + api.Addr.String())(c)
		c.Credentials = []Credential{{Name: "OLD", Placeholder: placeholder}}
	})
	request := fmt.Sprintf("GET http://api:%s/ HTTP/1.1\r\nHost: api:%[1]s\r\nX: %%s\r\n\r\n", api.port())
	if resp, _ := roundTrip(t, p, fmt.Sprintf(request, placeholder), "GET"); resp.StatusCode != 403 {
		t.Errorf("with the placeholder: %d", resp.StatusCode)
	}
	if e := p.event(t); e.Reason != ReasonCredential {
		t.Errorf("recorded %+v", e)
	}
	if resp, _ := roundTrip(t, p, fmt.Sprintf(request, "y"), "GET"); resp.StatusCode != 200 {
		t.Errorf("without it: %d", resp.StatusCode)
	}
}

// TestRepeatedSecretsAreBlottedOut: a service that shows what it was sent does not
// tell the secret to the program, nor to the log.
func TestRepeatedSecretsAreBlottedOut(t *testing.T) {
	stars := strings.Repeat("*", len(secret))
	for _, c := range []struct{ name, response, want string }{
		{"body", "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n<<" + secret + ">>", "<<" + stars + ">>"},
		{"header", "HTTP/1.1 200 OK\r\nX-Echo: " + secret + "\r\nContent-Length: 0\r\n\r\n", stars},
		{"interim", "HTTP/1.1 103 Early\r\nX-Echo: " + secret + "\r\n\r\n" + ok, stars},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n" + secret[:4] + "\r\na\r\n" + secret[4:] + "\r\n0\r\n\r\n", stars},
		{"not HTTP", secret + "\r\n\r\n", stars},
	} {
		api := rawOrigin(t, c.response)
		p := guardedBy(t, api, rawOrigin(t, ok))
		conn := dialTCP(t, p.addr)
		fmt.Fprintf(conn, "GET http://api:%s/ HTTP/1.1\r\nHost: api:%[1]s\r\nX: %s\r\nConnection: close\r\n\r\n", api.port(), placeholder)
		answer, _ := io.ReadAll(conn)
		text := strings.ReplaceAll(string(answer), "\r\na\r\n", "") // the border of two chunks
		e := p.event(t)
		if strings.Contains(text, secret) || strings.Contains(e.Detail, secret) || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, recorded %+v", c.name, text, e)
		}
		if seen := api.requests(); len(seen) != 1 || !strings.Contains(seen[0], secret) {
			t.Errorf("%s: the service saw %q", c.name, seen)
		}
	}
}

// TestRepeatedBasicIsBlottedOut: the word of Basic authentication is as good as the secret, and the
// program chooses what stands before that. An answer that repeats it does not tell more than the bits of
// one letter at each end, whichever way the request came and wherever the answer has it. The service got it.
func TestRepeatedBasicIsBlottedOut(t *testing.T) {
	for user := range 3 { // where the secret begins decides how it is encoded
		pair := strings.Repeat("u", user) + ":"
		sent, word := base64.StdEncoding.EncodeToString([]byte(pair+placeholder)), base64.StdEncoding.EncodeToString([]byte(pair+secret))
		stars := strings.Repeat("*", 8*len(secret)/6-1)
		told := func(text string) bool { // three letters in a row of what is made of the secret alone
			for at := (len(pair)*8 + 5) / 6; at+3 <= len(strings.TrimRight(word, "=")); at++ {
				if strings.Contains(text, word[at:at+3]) {
					return true
				}
			}
			return false
		}
		for name, response := range map[string]string{
			"body":     fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n<<%s>>", len(word)+4, word),
			"header":   "HTTP/1.1 200 OK\r\nX-Echo: Basic " + word + "\r\nContent-Length: 0\r\n\r\n",
			"interim":  "HTTP/1.1 103 Early\r\nX-Echo: Basic " + word + "\r\n\r\n" + ok,
			"no field": "HTTP/1.1 200 OK\r\nBasic " + word + "\r\n\r\n", // is in the refusal
		} {
			for _, tunnel := range []bool{false, true} {
				if name == "no field" && tunnel {
					continue // nothing reads it
				}
				api := rawOrigin(t, response)
				p := guardedBy(t, api, rawOrigin(t, ok))
				conn := dialTCP(t, p.addr)
				r := bufio.NewReader(conn)
				at := "http://api:" + api.port()
				if tunnel {
					at = ""
					fmt.Fprintf(conn, "CONNECT api:%s HTTP/1.1\r\nHost: api:%[1]s\r\n\r\n", api.port())
					if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
						t.Fatalf("%q, %v", line, err)
					}
				}
				fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: api:%s\r\nAuthorization: Basic %s\r\nConnection: close\r\n\r\n", at, api.port(), sent)
				answer, _ := io.ReadAll(r)
				e := p.event(t)
				if told(string(answer)) || told(e.Detail) || !strings.Contains(string(answer)+e.Detail, stars) {
					t.Errorf("%s, tunnel %v: %q, recorded %+v", name, tunnel, answer, e)
				}
				if seen := api.requests(); len(seen) != 1 || !strings.Contains(seen[0], "Basic "+word) {
					t.Errorf("%s: the service saw %q", name, seen)
				}
			}
		}
	}
}

// TestReadersSeeEverySplit: however a text is cut into reads, an alarm is raised
// exactly if it holds the placeholder, and what is blotted out is every secret.
func TestReadersSeeEverySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"s3c", "ret=/", "+value", secret, base64.URLEncoding.EncodeToString([]byte(":" + secret)), placeholder, placeholder[:30], placeholder[30:], "x", strings.Repeat("y", 70)}), 0, 12).Draw(t, "parts")
		text := strings.Join(parts, "")
		cuts := func() io.Reader {
			var rs []io.Reader
			for rest := text; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
				rs, rest = append(rs, strings.NewReader(rest[:n])), rest[n:]
			}
			return io.MultiReader(rs...)
		}
		own := credentials{{Name: "K", Placeholder: placeholder, Secret: secret, forms: formsOf(secret)}}
		got, err := io.ReadAll(&leakCheck{r: cuts(), words: own})
		if alarm := strings.Contains(text, placeholder); (err != nil) != alarm || !alarm && string(got) != text || bytes.Contains(got, []byte(placeholder)) {
			t.Fatalf("watching %q: %q, %v", text, got, err)
		}
		got, err = io.ReadAll(iotest.OneByteReader(&blotter{r: cuts(), own: own}))
		if want := own.blot(text); string(got) != want || err != nil {
			t.Fatalf("blotting %q: %q, %v; want %q", text, got, err, want)
		}
	})
}

func TestCredentialsAreChecked(t *testing.T) {
	const rule = "api=127.0.0.1:80"
	for _, c := range []struct {
		c    Credential
		want string
	}{
		{Credential{Placeholder: placeholder, Secret: secret, Service: rule}, ""},
		{Credential{Placeholder: placeholder}, ""},
		{Credential{Placeholder: "short", Secret: secret, Service: rule}, "not a placeholder"},
		{Credential{Placeholder: strings.ToUpper(placeholder), Secret: secret, Service: rule}, "not a placeholder"},
		{Credential{Placeholder: placeholder, Secret: "sh0rt", Service: rule}, "shorter than"},
		{Credential{Placeholder: placeholder, Secret: "s3cret\r\nX: y", Service: rule}, "control character"},
		{Credential{Placeholder: placeholder, Secret: secret, Service: "a.example.org"}, "not a service of this machine"},
		{Credential{Placeholder: placeholder, Secret: secret, Service: "api"}, "not a service of this machine"},
		{Credential{Placeholder: placeholder, Secret: secret}, "empty"},
	} {
		_, err := New(Config{Audit: func(Event) {}, Credentials: []Credential{c.c}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}
