package httpgate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/loopback"
	"github.com/sandgate/sandgate/protocol"
)

// Config is what a Server is built from. Every field is needed.
type Config struct {
	// Listener is of Listen, and closed by Serve.
	Listener net.Listener
	// Token is what programs show.
	Token string
	// Approver connects to the operator socket. Each page and each bridge's connection
	// has one of its own.
	Approver func(context.Context) (*client.Approver, error)
	// Page are the files of the web page, by their paths; they hold nothing secret.
	Page map[string]http.Handler
	// Live opens the channel of a page that is signed in. The page is shown proof first: it
	// tells this server from another program that has taken its port.
	Live func(w http.ResponseWriter, r *http.Request, proof string)
}

// Limits. A request of this protocol is small and sent at once; a connection that
// sends or reads more slowly is a fault, or an attack on the other clients.
const (
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	readTime       = 15 * time.Second
	writeTime      = 15 * time.Second
	idleTime       = 30 * time.Second
	endTime        = 500 * time.Millisecond
	failuresAtOnce = 20
	failuresPerSec = 1
)

// A Server answers on loopback.
type Server struct {
	cfg      Config
	hosts    []string // for programs
	page     string   // name and port, for browsers
	token    [sha256.Size]byte
	secrets  *secrets
	failures *bucket
	routes   map[string]map[string]route
	// headerTime and stood are the constants; tests are in more of a hurry.
	headerTime, stood time.Duration
	left              leaving
	// running is held for reading by each request; Serve takes it at its end.
	running sync.RWMutex
}

// New makes a server.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, hosts: hosts(cfg.Listener.Addr()), token: digest(cfg.Token),
		secrets: newSecrets(time.Now), failures: newBucket(time.Now, failuresAtOnce, failuresPerSec), headerTime: headerTime, stood: stood,
	}
	if tcp, ok := cfg.Listener.Addr().(*net.TCPAddr); ok {
		s.page = fmt.Sprintf("%s:%d", pageName(), tcp.Port)
	}
	s.routes = s.table()
	return s
}

// table is everything that can be asked for.
func (s *Server) table() map[string]map[string]route {
	t := map[string]map[string]route{
		"/v1/login": {
			"POST":   {who: anybody, handle: s.login, limit: 4 << 10},
			"GET":    {who: browser, handle: noContent},
			"DELETE": {who: browser, handle: s.logout},
		},
		"/v1/tickets": {"POST": {who: program, handle: s.newLink}},
		"/v1/live":    {"GET": {who: browser, handle: s.live}},
		"/v1/agent/tool_permission": {
			"GET":  {who: program, handle: s.stream(permissionOf)},
			"POST": {who: program, handle: s.permissionAnswered, limit: protocol.MaxMessage}, // arguments may be in it
		},
		"/v1/messages": {
			"GET":  {who: program, handle: s.stream(messageOf)},
			"POST": {who: program, handle: s.said, limit: 64 << 10},
		},
		"/v1/approval_needed": {"GET": {who: program, handle: s.needed}},
	}
	for path, file := range s.cfg.Page {
		t[path] = map[string]route{"GET": {who: anybody, handle: file.ServeHTTP}}
	}
	return t
}

// Link is an address that opens the page once, within TicketTime, and ends the link
// before. The ticket is in the fragment, which a browser does not send.
func (s *Server) Link() string { return "http://" + s.page + "/#ticket=" + s.secrets.newTicket() }

// Serve answers until ctx ends, which is not an error. Nothing of it runs any more when
// it returns.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hs := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what peers do wrong is not ours to print
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, ours{}, loopback.Ours(c))
		},
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		end, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if hs.Shutdown(end) != nil {
			hs.Close()
		}
	})
	err := hs.Serve(loopback.InPlaces(s.cfg.Listener))
	if stop() { // it was not the end of ctx
		cancel()
		hs.Close()
	} else {
		<-ended
	}
	s.running.Lock() // waits for channels too, which http.Server no longer knows of
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("http on %s: %w", s.cfg.Listener.Addr(), err)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.running.TryRLock() {
		panic(http.ErrAbortHandler) // the server has ended
	}
	defer s.running.RUnlock()
	setHeaders(w.Header(), s.page)
	found, no := s.find(r)
	if no != nil {
		s.refuse(w, r, no)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, found.limit)
	found.handle(w, r)
}

// refuse answers with the reason. The connection ends. A browser opens another, and
// anyone who guesses pays for each attempt.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	h := w.Header()
	h.Set("Connection", "close")
	switch no.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="sandgate"`)
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		var allowed []string
		for m := range s.routes[r.URL.Path] {
			allowed = append(allowed, m)
		}
		h.Set("Allow", strings.Join(allowed, ", "))
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" { // a person reads it
		http.Error(w, "sandgate: "+no.text+"\n"+no.hint, no.status)
		return
	}
	writeError(w, no.status, &protocol.Error{Code: no.code, Message: no.text, HintText: no.hint})
}

// writeError answers with an error as every route does.
func writeError(w http.ResponseWriter, status int, e *protocol.Error) {
	var body struct {
		Error struct {
			Code    protocol.Code `json:"code"`
			Message string        `json:"message"`
			Hint    string        `json:"hint,omitempty"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message, body.Error.Hint = e.Code, e.Message, e.HintText
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client disconnected
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// readJSON reads a body of one JSON object, strictly. It refuses a form, which a page
// of another site could send without the user's action.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, &protocol.Error{Code: codeContentType, Message: "the body must have the type application/json"})
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = protocol.Unmarshal(body, "body", v)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, &protocol.Error{Code: codeTooLarge, Message: fmt.Sprintf("the body is longer than %d bytes", tooLarge.Limit)})
	case err != nil:
		writeError(w, http.StatusBadRequest, &protocol.Error{Code: protocol.CodeInvalidParams, Message: err.Error()})
	}
	return err == nil
}

// login trades a ticket for a cookie, which scripts cannot read, and a key, which
// cookies of other ports do not carry.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var p struct {
		Ticket string `json:"ticket"`
	}
	if r.Header.Get("Origin") == "" { // every browser says it; signing in is for browsers
		s.refuse(w, r, s.failed(&refusal{http.StatusForbidden, codeOrigin, "only sandgate's page can sign in", ""}))
		return
	}
	if !readJSON(w, r, &p) {
		return
	}
	in, ok := s.secrets.redeem(p.Ticket)
	if !ok {
		s.refuse(w, r, s.failed(&refusal{http.StatusUnauthorized, codeUnknown, "this link was used already, expired, or was replaced by a newer one",
			"`sandgate approve --web` prints a new one"}))
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: in.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	writeJSON(w, http.StatusOK, map[string]string{"key": in.key, "proof": in.proof})
}

// live opens the channel of a page. It ends with the login, not only when the page asks
// for something else.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	l := s.browser(r)
	if l == nil {
		return // it has ended since admit looked
	}
	ctx, cancel := l.lasting(r.Context())
	defer cancel()
	s.cfg.Live(w, r.WithContext(ctx), l.proof)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.secrets.signOut()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	noContent(w, r)
}

// newLink makes a link for a client that has the token.
func (s *Server) newLink(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"url": s.Link(), "expires_ms": TicketTime.Milliseconds()})
}
