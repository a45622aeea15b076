package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/internal/loopback"
	"github.com/sandgate/sandgate/protocol"
)

// HTTPPath is where the server answers.
const HTTPPath = "/mcp"

// Limits of the server. An answer has no time limit: it may need a person.
const (
	maxHeader  = 16 << 10
	headerTime = 5 * time.Second
	idleTime   = 30 * time.Minute // of a session without a request
)

// An httpServer gives each MCP session a session of the supervisor's.
type httpServer struct {
	cfg   Config
	hosts []string
	token [sha256.Size]byte
	next  http.Handler

	mu   sync.Mutex
	open map[*conversation]bool
}

// ServeHTTP serves clients that show the token, over streamable HTTP, until ctx ends.
// The listener is on loopback, and closed then. A client with the token is an agent,
// and no more than that.
func ServeHTTP(ctx context.Context, c Config, l net.Listener, token string) error {
	if token == "" {
		return errors.New("mcp: the token is empty")
	}
	c.last = new(lately)
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	s := &httpServer{
		cfg: c, token: sha256.Sum256([]byte(token)), open: map[*conversation]bool{},
		hosts: []string{l.Addr().String(), net.JoinHostPort("localhost", port)},
	}
	s.next = mcp.NewStreamableHTTPHandler(s.session, &mcp.StreamableHTTPOptions{
		SessionTimeout: idleTime, MaxRequestBodyBytes: protocol.MaxMessage,
	})
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, MaxHeaderBytes: maxHeader, ErrorLog: log.New(discard{}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() {
		s.closeAll() // which ends the calls, and so the answers
		_ = server.Close()
	})
	defer stop()
	err := server.Serve(loopback.InPlaces(l))
	s.closeAll()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// session makes the server of one MCP session. What it keeps ends with the session.
func (s *httpServer) session(*http.Request) *mcp.Server {
	server, v := s.cfg.server()
	var once sync.Once
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if session, ok := r.GetSession().(*mcp.ServerSession); ok {
				once.Do(func() { s.keep(v, session) })
			}
			return next(ctx, method, r)
		}
	})
	return server
}

func (s *httpServer) keep(v *conversation, session *mcp.ServerSession) {
	s.mu.Lock()
	s.open[v] = true
	s.mu.Unlock()
	go func() {
		_ = session.Wait() // however it ended
		s.mu.Lock()
		delete(s.open, v)
		s.mu.Unlock()
		_ = v.close() // its connection; nothing is lost with it
	}()
}

func (s *httpServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.open {
		_ = v.close()
	}
}

// ServeHTTP implements http.Handler. It looks at where a request was sent, who sent it
// and what it shows, in this order, before anything reads its body.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if status, text := s.refuses(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, text, status)
		return
	}
	s.next.ServeHTTP(w, r)
}

// refuses gives the reason and status for not answering a request; status 0 means that
// it may be answered.
func (s *httpServer) refuses(r *http.Request) (status int, text string) {
	// The Host header shows a stranger's name that leads to loopback, by which their
	// page would share our origin (DNS rebinding).
	if !slices.Contains(s.hosts, strings.ToLower(r.Host)) {
		return http.StatusMisdirectedRequest, "the Host header names another host"
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && !strings.EqualFold(origins[0], "http://"+r.Host) {
		return http.StatusForbidden, "pages of other sites cannot send this request"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return http.StatusForbidden, "pages of other sites cannot send this request"
	}
	if r.URL.EscapedPath() != HTTPPath || r.URL.RawQuery != "" {
		return http.StatusNotFound, "this server has only the path " + HTTPPath
	}
	shown := r.Header.Values("Authorization")
	if len(shown) != 1 {
		return http.StatusUnauthorized, "send the token from the token file as Authorization: Bearer"
	}
	scheme, token, _ := strings.Cut(shown[0], " ")
	sum := sha256.Sum256([]byte(token))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		return http.StatusUnauthorized, "wrong token"
	}
	return 0, ""
}
