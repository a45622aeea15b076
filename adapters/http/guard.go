package httpgate

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// who may use a route. The zero value admits no one.
type who int

const (
	nobody  who = iota
	anybody     // it holds no secret and does nothing: the files of the page
	browser     // that has opened the page with a link: cookie and key
	program     // that has the token
)

// A route is one path and method.
type route struct {
	who    who
	handle http.HandlerFunc
	// limit bounds the body in bytes; 0 allows no body.
	limit int64
}

// A refusal is why a request is not answered.
type refusal struct {
	status     int
	code       protocol.Code
	text, hint string
}

// Codes of this package; what comes from the operator socket has the code that it has
// there.
const (
	codeHost        protocol.Code = "wrong_host"
	codeOrigin      protocol.Code = "wrong_origin"
	codeQuery       protocol.Code = "query_refused"
	codeNotFound    protocol.Code = "not_found"
	codeMethod      protocol.Code = "wrong_method"
	codeUnknown     protocol.Code = "not_authenticated"
	codeTooMany     protocol.Code = "too_many_failures"
	codeContentType protocol.Code = "wrong_content_type"
	codeTooLarge    protocol.Code = "too_large"
	codeUser        protocol.Code = "wrong_user"
)

// PageKey is the header in which the page shows its key. A WebSocket, for which a
// page can set no header, has it among its subprotocols, after keyProtocol.
const (
	PageKey     = "Sandgate-Key"
	keyProtocol = "sandgate.key."
)

// cookieName is the name of the cookie, which is of the page's own host.
const cookieName = "sandgate"

// find looks at what a request asks for, in the order of cost and of what is given
// away: where it was sent, who sent it, what it asks for, and who may ask that.
func (s *Server) find(r *http.Request) (route, *refusal) {
	host := strings.ToLower(r.Host)
	if host != s.page && !slices.Contains(s.hosts, host) {
		return route{}, wrongHost
	}
	// A browser that is started with a link has it on its command line, which every user of the
	// machine can read. So a ticket, a cookie and a key are worth nothing in another user's hands.
	if own, _ := r.Context().Value(ours{}).(bool); !own && host == s.page {
		return route{}, wrongUser
	}
	if no := s.checkOrigin(r); no != nil {
		return route{}, no
	}
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return route{}, &refusal{http.StatusBadRequest, codeQuery, "query strings are not allowed: URLs end up in logs and histories",
			"send the token as Authorization: Bearer, and all other data in the body"}
	}
	methods, ok := s.routes[r.URL.Path]
	// Another spelling of a path (%2e, //) is another path: nothing is cleaned or
	// redirected, so that no two programs can see two things in it.
	if !ok || r.URL.EscapedPath() != r.URL.Path {
		return route{}, &refusal{http.StatusNotFound, codeNotFound, "not found", ""}
	}
	found, ok := methods[r.Method]
	if !ok {
		return route{}, &refusal{http.StatusMethodNotAllowed, codeMethod, "method not allowed", ""}
	}
	// The page is to be had under its own name only, and the routes of programs under
	// theirs: what is on the page cannot even name a program's route.
	if (host == s.page) != (found.who == anybody || found.who == browser) {
		return route{}, wrongHost
	}
	return found, s.admit(r, found)
}

var wrongHost = &refusal{http.StatusMisdirectedRequest, codeHost, "this is not the address of the sandgate page that runs now",
	"browsers: `sandgate approve --web` prints a link that opens the page; programs: use the address that `sandgate serve` printed"}

// ours is the key of a context that says whether its connection is this user's or root's.
type ours struct{}

var wrongUser = &refusal{http.StatusForbidden, codeUser, "only browsers of the user that runs sandgate can open the page",
	"run the browser as that user"}

// checkOrigin refuses what another site's page sends. A browser says where a request
// comes from; a program says nothing, and has to have the token.
func (s *Server) checkOrigin(r *http.Request) *refusal {
	no := &refusal{http.StatusForbidden, codeOrigin, "pages of other sites cannot send this request", "open sandgate's own page"}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && !strings.EqualFold(origins[0], "http://"+r.Host) {
		return no
	}
	// To come here by a link from elsewhere is fine: the page itself holds nothing.
	site := r.Header.Get("Sec-Fetch-Site")
	navigation := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	if site != "" && site != "same-origin" && site != "none" && !navigation {
		return no
	}
	return nil
}

// admit holds what a request shows against what its route wants.
func (s *Server) admit(r *http.Request, to route) *refusal {
	var known bool
	switch to.who {
	case anybody:
		return nil
	case browser:
		known = s.browser(r) != nil
	case program:
		known = s.isProgram(r)
	}
	if known {
		return nil
	}
	return s.failed(&refusal{http.StatusUnauthorized, codeUnknown, "not signed in",
		"browsers: open the link that `sandgate approve --web` prints; programs: send Authorization: Bearer with the token from the token file"})
}

// failed counts a failure, and makes it wait when there were many.
func (s *Server) failed(no *refusal) *refusal {
	if s.failures.take() {
		return no
	}
	return &refusal{http.StatusTooManyRequests, codeTooMany, "too many failures; wait a second", ""}
}

func (s *Server) isProgram(r *http.Request) bool {
	shown := r.Header.Values("Authorization")
	if len(shown) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(shown[0], " ")
	return strings.EqualFold(scheme, "Bearer") && equal(digest(token), s.token)
}

// browser is the login of the cookie and the key, nil if they are of none. Cookies do not
// tell ports apart: a server on another port that is asked for by the page's name is sent
// the cookie, and can set others. It has not the key, the Origin check has turned its pages
// away before, and of several cookies one that fits is enough.
func (s *Server) browser(r *http.Request) *login {
	keys := slices.Concat(r.Header.Values(PageKey), subprotocolKeys(r))
	if len(keys) != 1 {
		return nil
	}
	var cookies []string
	for _, c := range r.CookiesNamed(cookieName) {
		cookies = append(cookies, c.Value)
	}
	return s.secrets.known(cookies, keys[0])
}

func subprotocolKeys(r *http.Request) (keys []string) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if key, ok := strings.CutPrefix(strings.TrimSpace(p), keyProtocol); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// policy is what the page may do: load its own files and talk to where it came from,
// and turn no text into markup or script.
func policy(host string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' ws://" + host +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// setHeaders are on every answer, refusals included.
func setHeaders(h http.Header, host string) {
	h.Set("Content-Security-Policy", policy(host))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}
