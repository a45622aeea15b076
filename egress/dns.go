package egress

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// maxQuery is how long a question is that is read, in bytes. A name has 255 at most
// (RFC 1035, section 2.3.4); the rest is for what clients add (RFC 6891).
const maxQuery = 1232

// nameTTL is for how long an answer may be kept, in seconds. What it says holds for
// a whole call.
const nameTTL = 60

// How fast names are answered: so many in each slice of time, together. A client
// waits seconds for its answer; one that asks in a loop takes no more of us than this.
const (
	namesPerSlice = 500
	nameSlice     = 250 * time.Millisecond
)

// maxNamesRecorded is how many refused names of one call are recorded each. The rest
// is a number.
const maxNamesRecorded = 256

// asked is a question to the name service.
type asked struct {
	mu      sync.Mutex
	slice   time.Time // when the present one began
	inSlice int
	refused map[Host]struct{}
	further int // refused names that were not recorded
	full    bool
}

// turn waits until one more question may be answered.
func (s *Server) turn(ctx context.Context) {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	now := time.Now()
	if now.Sub(s.asked.slice) >= nameSlice {
		s.asked.slice, s.asked.inSlice = now, 0
	}
	if s.asked.inSlice++; s.asked.inSlice > namesPerSlice {
		wait(ctx, time.Until(s.asked.slice.Add(nameSlice)))
		s.asked.slice, s.asked.inSlice = time.Now(), 1
	}
}

// answerNames gives the answer to one question, or nil. Nothing is asked outside: a
// name that may be connected to has a stand-in, and every other does not exist.
func (s *Server) answerNames(ctx context.Context, query []byte) []byte {
	s.turn(ctx)
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil // an answer to an answer could go on for ever
	}
	r := reply{id: h.ID, opcode: h.OpCode, desired: h.RecursionDesired}
	q, err := p.Question()
	if err != nil {
		return r.fail(dnsmessage.RCodeFormatError)
	}
	r.question = &q
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return r.fail(dnsmessage.RCodeFormatError) // which of two was meant is anyone's guess
	}
	r.extended = hasExtension(&p)
	switch {
	case h.OpCode != 0:
		return r.fail(dnsmessage.RCodeNotImplemented)
	case q.Class != dnsmessage.ClassINET:
		return r.fail(dnsmessage.RCodeRefused)
	}
	s.answerQuestion(&r, q)
	return r.pack()
}

// hasExtension reports whether the client knows EDNS (RFC 6891), so that the answer
// may have it too.
func hasExtension(p *dnsmessage.Parser) bool {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	h, err := p.AdditionalHeader()
	return err == nil && h.Type == dnsmessage.TypeOPT
}

const reverseIPv4 = ".in-addr.arpa"

func (s *Server) answerQuestion(r *reply, q dnsmessage.Question) {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case name == "localhost", name == s.cfg.Hostname && name != "", strings.HasSuffix(name, ".localhost"): // RFC 6761, section 6.3
		r.addr, r.addr6 = netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
		return
	case strings.HasSuffix(name, ".arpa"):
		r.names = s.reverse(name)
		return
	}
	h, err := hostrule.ParseHost(name)
	if err != nil || h.IsAddr() {
		r.why = "not a host name"
		if err != nil {
			s.recordName(Host{}, malformed("name lookup: %w", err))
		}
		return
	}
	if err := s.mayAsk(h); err != nil {
		s.recordName(h, err)
		r.why = "not on the list of allowed hosts"
		return
	}
	if q.Type != dnsmessage.TypeA {
		r.exists = true
		return
	}
	if r.addr, err = s.standIns.of(h); err != nil {
		s.recordFull(h)
		r.code = dnsmessage.RCodeRefused
	}
}

// mayAsk says whether some port of a host could be connected to: by the lists, or
// by an answer of the operator. Which one is asked for is judged when it is.
func (s *Server) mayAsk(h Host) error {
	t := Target{Host: h}
	if err := s.credentials.alarm(t, "the host's name", h.Name()); err != nil {
		return err
	}
	switch v, rule := s.policy.decideHost(h); {
	case v == denied:
		return refuse(ReasonDenied, t, "denied by the rule %s", rule)
	case v == allowed || s.cfg.Ask != nil:
		return nil
	}
	return s.withHint(refuse(ReasonUnlisted, t, "the name is not on the list of allowed hosts"))
}

// decideHost is decide for a host of which the port is not known yet: denied if no
// port of it is open, allowed if one may be.
func (p policy) decideHost(h Host) (verdict, string) {
	for _, r := range p.deny {
		if r.Port == 0 && r.MatchesHost(h) {
			return denied, r.String()
		}
	}
	if len(p.allow) == 0 {
		return unknown, ""
	}
	for _, list := range p.allow {
		if !matchesAny(list, h) {
			return unknown, ""
		}
	}
	return allowed, ""
}

func matchesAny(list []Rule, h Host) bool {
	for _, r := range list {
		if r.MatchesHost(h) {
			return true
		}
	}
	return false
}

// reverse is the name that an address stands for, asked as 2.0.18.198.in-addr.arpa.
func (s *Server) reverse(name string) string {
	labels := strings.Split(strings.TrimSuffix(name, reverseIPv4), ".")
	if len(labels) != 4 {
		return ""
	}
	addr, err := netip.ParseAddr(labels[3] + "." + labels[2] + "." + labels[1] + "." + labels[0])
	if err != nil {
		return ""
	}
	if h, ok := s.standIns.host(addr); ok && !h.IsAddr() {
		return h.Name() + "."
	}
	return ""
}

// recordName records a name that was refused, once, and past a number of them only how
// many there were: a program that asks in a loop must not fill the log. All texts that
// are not names are alike.
func (s *Server) recordName(h Host, err error) {
	s.asked.mu.Lock()
	_, known := s.asked.refused[h]
	full := len(s.asked.refused) >= maxNamesRecorded
	switch {
	case known:
	case full:
		s.asked.further++
	default:
		s.asked.refused[h] = struct{}{}
	}
	s.asked.mu.Unlock()
	if !known && !full {
		s.recordRefused(h, err)
	}
}

// recordRefused records a question.
func (s *Server) recordRefused(h Host, err error) {
	c := &client{Server: s, who: s.cfg.Identity()}
	a := c.attempt(ProtocolDNS)
	a.event.Host = h.String()
	a.finish(err)
}

// recordFull records, once, that no more names get an address.
func (s *Server) recordFull(h Host) {
	s.asked.mu.Lock()
	first := !s.asked.full
	s.asked.full = true
	s.asked.mu.Unlock()
	if first {
		s.recordRefused(h, refuse(ReasonLimit, Target{Host: h}, "more than %d names in one call", maxStandIns))
	}
}

// recordFurther says how many refused names have no entry of their own.
func (s *Server) recordFurther() {
	s.asked.mu.Lock()
	n := s.asked.further
	s.asked.mu.Unlock()
	if n > 0 {
		s.recordRefused(Host{}, refuse(ReasonLimit, Target{}, "%d further name lookups were refused", n))
	}
}

// A reply is an answer in the making. Without an address, a name or exists, it says
// that there is no such name.
type reply struct {
	id       uint16
	opcode   dnsmessage.OpCode
	desired  bool
	extended bool
	question *dnsmessage.Question

	code   dnsmessage.RCode
	exists bool // with nothing of the type that was asked for
	addr   netip.Addr
	addr6  netip.Addr
	names  string // the answer to a question for the name of an address
	why    string // in words, for clients that show them
}

func (r *reply) fail(code dnsmessage.RCode) []byte {
	r.code = code
	return r.pack()
}

func (r *reply) pack() []byte {
	if r.code == dnsmessage.RCodeSuccess && r.question != nil && !r.exists && !r.addr.IsValid() && r.names == "" {
		r.code = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID: r.id, Response: true, OpCode: r.opcode, RecursionDesired: r.desired, RecursionAvailable: true, RCode: r.code,
	})
	b.EnableCompression()
	err := errors.Join(b.StartQuestions(), r.packQuestion(&b), b.StartAnswers(), r.packAnswer(&b), b.StartAdditionals(), r.packExtension(&b))
	message, finishErr := b.Finish()
	if err != nil || finishErr != nil {
		return nil
	}
	return message
}

func (r *reply) packQuestion(b *dnsmessage.Builder) error {
	if r.question == nil {
		return nil
	}
	return b.Question(*r.question)
}

func (r *reply) packAnswer(b *dnsmessage.Builder) error {
	if r.code != dnsmessage.RCodeSuccess || r.question == nil {
		return nil
	}
	h := dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: nameTTL}
	switch {
	case r.question.Type == dnsmessage.TypeA && r.addr.IsValid():
		return b.AResource(h, dnsmessage.AResource{A: r.addr.As4()})
	case r.question.Type == dnsmessage.TypeAAAA && r.addr6.IsValid():
		return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: r.addr6.As16()})
	case r.question.Type == dnsmessage.TypePTR && r.names != "":
		name, err := dnsmessage.NewName(r.names)
		if err != nil {
			return err
		}
		return b.PTRResource(h, dnsmessage.PTRResource{PTR: name})
	}
	return nil
}

// prohibited is the extended error of RFC 8914, section 4.19.
const (
	optionExtendedError = 15
	prohibited          = 18
)

func (r *reply) packExtension(b *dnsmessage.Builder) error {
	if !r.extended {
		return nil
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(maxQuery, r.code, false); err != nil {
		return err
	}
	var opt dnsmessage.OPTResource
	if r.why != "" {
		opt.Options = []dnsmessage.Option{{Code: optionExtendedError, Data: append([]byte{0, prohibited}, "sandgate: "+r.why...)}}
	}
	return b.OPTResource(h, opt)
}
