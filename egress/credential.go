package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// A Credential is a secret that a program uses without seeing it. The program has a
// placeholder, which becomes the secret in the header of a request to one service of this
// machine in clear text, or to one host inside TLS, which ends here for that: in any field's
// value, and inside the user name and password of Basic authentication. Visible anywhere else,
// it is an alarm: a program sends its placeholder to a host that was not meant. Inside the TLS
// of other hosts it cannot be seen, and is worth nothing to them.
//
// What comes back has the secret blotted out, byte for byte and in base64, in case the other
// side repeats what it was sent. That is a help against accidents. One that wants to tell
// the secret in another form can.
type Credential struct {
	Name        string // for people and the log
	Placeholder string // lower-case letters, digits and hyphens, so that no client spells it otherwise
	// Secret is the form of a field's value. If it is empty, the placeholder works nowhere, and
	// its use is reported everywhere.
	Secret string
	// It goes to one of the two.
	Service string // the rule of the service, as in Config.Allow
	Host    string // as hostrule.CredentialHost takes it

	rule  Rule     // of Service
	host  Target   // of Host
	forms []string // what is blotted out
}

// Shortest lengths in bytes. A shorter placeholder would be found by chance, and a
// shorter secret would blot out ordinary text.
const (
	minPlaceholder = 24
	minSecret      = 8
)

// formsOf are a secret and what base64 makes of it behind any other text, as in the words of Basic
// authentication, whose user name the program chooses. What the neighbours decide too is left out.
func formsOf(secret string) []string {
	forms := []string{secret}
	for before := range 3 {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			forms = append(forms, text[(8*before+5)/6:8*(before+len(secret))/6])
		}
	}
	return forms
}

// check does not put the secret into its error.
func (c *Credential) check() (err error) {
	switch {
	case len(c.Placeholder) < minPlaceholder || len(c.Placeholder) > hostrule.MaxLabel || hostrule.CheckLabel(c.Placeholder) != nil:
		return fmt.Errorf("egress: credential %s: not a placeholder", c.Name)
	case c.Secret == "":
		return nil
	case len(c.Secret) < minSecret:
		return fmt.Errorf("egress: credential %s: the secret is shorter than %d bytes", c.Name, minSecret)
	case strings.ContainsFunc(c.Secret, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("egress: credential %s: the secret has a control character, which a header cannot contain", c.Name)
	}
	if err := c.parsePlace(); err != nil {
		return fmt.Errorf("egress: credential %s: %w", c.Name, err)
	}
	return nil
}

// parsePlace reads where the secret goes. A host is not one of the services: a
// certificate cannot name a service.
func (c *Credential) parsePlace() (err error) {
	switch {
	case c.Host != "" && c.Service != "":
		return errors.New("it has both a service and a host; give one")
	case c.Host != "":
		c.host, err = hostrule.CredentialHost(c.Host)
		return err
	}
	if c.rule, err = hostrule.Parse(c.Service); err == nil && c.rule.Service == (hostrule.Service{}) {
		err = errors.New("this is a host, not a service of this machine")
	}
	return err
}

// credentials are those of a server, or of one connection. There are few.
type credentials []Credential

func newCredentials(list []Credential, a *Authority) (credentials, error) {
	cs := make(credentials, len(list))
	var errs []error
	for i, c := range list {
		err := c.check()
		if err == nil && c.host != (Target{}) {
			if a == nil {
				err = fmt.Errorf("egress: credential %s: it is for a host, but no certificate authority is configured", c.Name)
			} else {
				_, err = a.leaf(c.host.Host.Name())
			}
		}
		if errs = append(errs, err); c.Secret != "" {
			c.forms = formsOf(c.Secret)
		}
		cs[i] = c
	}
	return cs, errors.Join(errs...)
}

// split tells the credentials of t from those that are an alarm there. A host's are its
// own inside TLS only.
func (c *client) split(t Target) (own, foreign credentials) {
	rule, service := c.policy.service(t)
	for _, x := range c.credentials {
		mine := service && x.rule == rule
		if c.sealed {
			mine = x.host == t
		}
		if mine && x.Secret != "" {
			own = append(own, x)
		} else {
			foreign = append(foreign, x)
		}
	}
	return own, foreign
}

// alarm is a refusal if one of the texts holds a placeholder.
func (cs credentials) alarm(t Target, where string, texts ...string) error {
	for _, c := range cs {
		for _, text := range texts {
			if strings.Contains(strings.ToLower(text), c.Placeholder) {
				return misplaced(t, c, where)
			}
		}
	}
	return nil
}

func misplaced(t Target, c Credential, where string) error {
	return refuse(ReasonCredential, t, "the placeholder of credential %s, which belongs to another host, is in %s", c.Name, where)
}

// apply puts the secrets of t into a request's header, and refuses a request that
// holds a placeholder of another host.
func (c *client) apply(a *attempt, t Target, h *head) error {
	own, foreign := c.split(t)
	err := foreign.alarm(t, "the request line", h.method, h.target)
	for i := range h.fields {
		f := &h.fields[i]
		err = errors.Join(err, foreign.alarm(t, "the header", f.name, f.value, basic(f.value)))
		a.event.Applied = append(a.event.Applied, own.used(f.value)...)
		f.value = own.fill(f.value)
	}
	if err == nil && len(a.event.Applied) > 0 {
		slices.Sort(a.event.Applied)
		a.event.Applied = slices.Compact(a.event.Applied)
		h.readable()
		err = c.mayUse(t, a.event.Applied)
	}
	if err != nil {
		a.event.Applied = nil // nothing was sent
	}
	return err
}

// mayUse asks whether secrets may be used for t.
func (c *client) mayUse(t Target, names []string) error {
	if c.cfg.Use == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Limits.Ask)
	defer cancel()
	if err := c.cfg.Use(ctx, t, names); err != nil {
		return refuse(ReasonUse, t, "%s is not used: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// used are the names of those that fill would put into value.
func (cs credentials) used(value string) []string {
	var names []string
	for _, c := range cs {
		if strings.Contains(value, c.Placeholder) || strings.Contains(basic(value), c.Placeholder) {
			names = append(names, c.Name)
		}
	}
	return names
}

// fill replaces placeholders in a field's value.
func (cs credentials) fill(value string) string {
	replace := func(s string) string {
		for _, c := range cs {
			s = strings.ReplaceAll(s, c.Placeholder, c.Secret)
		}
		return s
	}
	if pair := basic(value); pair != "" {
		if filled := replace(pair); filled != pair {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(filled))
		}
	}
	return replace(value)
}

// basic decodes the user name and password of Basic authentication (RFC 7617), or
// returns "".
func basic(value string) string {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return ""
	}
	return string(pair)
}

// readable asks for a response without compression, in which a secret would not be
// recognised.
func (h *head) readable() {
	for i := range h.fields {
		if strings.EqualFold(h.fields[i].name, "Accept-Encoding") {
			h.fields[i].value = "identity"
			return
		}
	}
	h.fields = append(h.fields, field{"Accept-Encoding", "identity"})
}

// blot replaces every byte of the secrets in s.
func (cs credentials) blot(s string) string {
	text := []byte(s)
	cs.blotIn(text)
	return string(text)
}

// watched is r as long as no placeholder of another host comes out of it.
func (c *client) watched(t Target, r io.Reader) io.Reader {
	_, foreign := c.split(t)
	if len(foreign) == 0 {
		return r
	}
	return &leakCheck{r: r, t: t, words: foreign}
}

// A leakCheck fails when a placeholder comes by. What came in the same read is kept back.
type leakCheck struct {
	r     io.Reader
	t     Target
	words credentials
	tail  []byte // the end of what came before, shorter than a placeholder
}

func (w *leakCheck) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	seam := append(w.tail, p[:min(n, hostrule.MaxLabel)]...)
	for _, c := range w.words {
		word := []byte(c.Placeholder)
		if bytes.Contains(p[:n], word) || bytes.Contains(seam, word) {
			return 0, misplaced(w.t, c, "the data sent")
		}
	}
	all := seam
	if n > hostrule.MaxLabel {
		all = p[:n]
	}
	w.tail = append([]byte(nil), all[max(0, len(all)-hostrule.MaxLabel+1):]...)
	return n, err
}

// blotted is r with the secrets of t blotted out.
func (c *client) blotted(t Target, r io.Reader) io.Reader {
	own, _ := c.split(t)
	if len(own) == 0 {
		return r
	}
	return &blotter{r: r, own: own}
}

// A blotter replaces secrets by as many asterisks, so that lengths that were announced
// before stay true. It keeps back what may be the beginning of a secret.
type blotter struct {
	r   io.Reader
	own credentials
	buf []byte // what has been read and not given
	err error  // of r, once buf is given

	room []byte // in which buf lies
}

func (b *blotter) Read(p []byte) (int, error) {
	for {
		ready := len(b.buf)
		if b.err == nil {
			ready -= b.own.begun(b.buf)
		}
		if ready > 0 {
			n := copy(p, b.buf[:ready])
			b.buf = b.buf[n:]
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}
		b.more()
	}
}

// more reads behind what was kept back, which is less than a secret, and blots both.
func (b *blotter) more() {
	kept := len(b.buf)
	if len(b.room) < kept+smallBuffer {
		b.room = make([]byte, kept+smallBuffer)
	}
	copy(b.room, b.buf) // which may lie in it
	var n int
	n, b.err = b.r.Read(b.room[kept:])
	b.buf = b.room[:kept+n]
	b.own.blotIn(b.buf)
}

// blotIn is blot in place.
func (cs credentials) blotIn(text []byte) {
	for form := range cs.told {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(form))
			if i < 0 {
				break
			}
			for j := range len(form) {
				rest[i+j] = '*'
			}
			rest = rest[i+len(form):]
		}
	}
}

// begun is the length of the longest end of buf with which a secret begins.
func (cs credentials) begun(buf []byte) int {
	longest := 0
	for form := range cs.told {
		for n := min(len(form)-1, len(buf)); n > longest; n-- {
			if string(buf[len(buf)-n:]) == form[:n] {
				longest = n
			}
		}
	}
	return longest
}

// told yields each form of each secret.
func (cs credentials) told(yield func(string) bool) {
	for _, c := range cs {
		for _, form := range c.forms {
			if !yield(form) {
				return
			}
		}
	}
}
