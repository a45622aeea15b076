package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/gitsign"
)

// Signing is how commits and tags are signed that programs make.
type Signing struct {
	// Ask puts each to the operator; without it they are signed unasked.
	Ask bool
	// Refused is why none is signed; "" if they are.
	Refused string
	gitsign.Signer
}

// A gitSigner signs for one call, one object after another.
type gitSigner struct {
	*decider
	ctx context.Context // ends with the call
	mu  sync.Mutex
}

// signing answers the sandbox at gitsign.Host.
func (d *decider) signing(ctx context.Context) map[string]func(net.Conn) {
	if d.cfg.Signing == nil {
		return nil
	}
	signs := &gitSigner{decider: d, ctx: ctx}
	return map[string]func(net.Conn){gitsign.Service: signs.serve}
}

// errNotSigned is in errors that are not faults of ours.
var errNotSigned = errors.New("not signed")

// serve answers the one request of a connection.
func (d *gitSigner) serve(conn net.Conn) {
	d.mu.Lock() // one question, and one object in memory, at a time
	defer d.mu.Unlock()
	var r gitsign.Request
	if err := json.NewDecoder(io.LimitReader(conn, 2*gitsign.MaxObject)).Decode(&r); err != nil {
		d.answer(conn, gitsign.Reply{}, gitsign.Object{}, fmt.Errorf("%w: it is not a request for a signature", errNotSigned))
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	go func() { // who hangs up wants no answer any more
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	}()
	reply, o, err := d.sign(ctx, r)
	d.answer(conn, reply, o, err)
}

func (d *gitSigner) sign(ctx context.Context, r gitsign.Request) (gitsign.Reply, gitsign.Object, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{errNotSigned}, args...)...)
	}
	o, err := gitsign.Parse(r.Object)
	if err != nil {
		return gitsign.Reply{}, o, refuse("%w", err)
	}
	signer := d.cfg.Signing
	key, err := signer.Key(ctx, r.Format)
	if err != nil {
		return gitsign.Reply{}, o, refuse("%w", err)
	}
	if !signer.Asked(r, key) {
		return gitsign.Reply{}, o, refuse("git asks for the key %.80q, and your own settings name %.80q", r.Key, key)
	}
	if signer.Refused != "" {
		return gitsign.Reply{}, o, refuse("%s", signer.Refused)
	}
	if signer.Ask {
		if err := d.askToSign(ctx, o, key); err != nil {
			return gitsign.Reply{}, o, err
		}
	}
	reply, err := signer.Sign(ctx, r.Format, key, r.Object)
	return reply, o, err
}

// askToSign asks as it is asked about hosts. What is remembered is the key, the repository
// and whether it is a commit or a tag, and not what it says.
func (d *gitSigner) askToSign(ctx context.Context, o gitsign.Object, key string) error {
	repository := d.cfg.Signing.Repository
	description := fmt.Sprintf("Sign a %s in %s with your key %s", o.Kind, approval.EscapeName(repository), approval.EscapeName(key))
	payload := map[string]any{"repository": repository, "kind": o.Kind, "key": key}
	ok, err := d.asked(d.c.Ask(ctx, approval.Call{
		ToolName: ToolSign, Subject: o,
		Reach: approval.Reach{Single: "each repository and key is asked about by its name"},
		Request: &approval.Request{
			ToolName: ToolSign, Description: description, Payload: payload,
			Covers: fmt.Sprintf("every %s of this repository that is signed with this key, with any content, by calls that can reach no more than this one", o.Kind),
		},
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Text, Content: described(o)}, nil
		},
	}))
	if err == nil && !ok {
		return fmt.Errorf("%w: the operator said no", errNotSigned)
	}
	return err
}

// described is what a person sees of an object: all that is signed. It is the program's text, so
// each of its lines is set in below ours; a screen that cuts it says so, and asks again.
func described(o gitsign.Object) string {
	text := fmt.Sprintf("the %s, as it is signed:\n", o.Kind)
	for line := range strings.Lines(o.Text) {
		text += "  " + approval.EscapeLine(strings.TrimSuffix(line, "\n")) + "\n"
	}
	return text
}

// answer replies and records. A refusal is a violation.
func (d *gitSigner) answer(conn net.Conn, r gitsign.Reply, o gitsign.Object, err error) {
	id := d.c.Identity()
	e := egress.Event{
		Session: id.Session, Call: id.Call, Protocol: egress.ProtocolSign,
		Host: gitsign.Host, Port: 80, Decision: egress.Allow, Start: time.Now(),
		Detail: fmt.Sprintf("a %s of %s by %.200s", o.Kind, o.Of, approval.EscapeLine(o.By)),
	}
	if err != nil {
		r = gitsign.Reply{Error: err.Error()}
		e.Decision, e.Reason, e.Detail = egress.Deny, egress.ReasonSignature, err.Error()
	}
	d.record(e)
	if err == nil {
		d.decider.mu.Lock()
		d.signed = append(d.signed, e.Detail)
		d.decider.mu.Unlock()
	}
	_ = json.NewEncoder(conn).Encode(r) // or it has gone
}

// Signed begins the warning that names what was signed. Where nobody is asked
// (approve_all, git.sign: allow) this is how a person learns of it.
const Signed = "Signed with your key: "

// signedText says it once for all that a call had signed.
func signedText(list []string) []string {
	const most = 8
	switch more := len(list) - most; {
	case len(list) == 0:
		return nil
	case more > 0:
		list = append(slices.Clone(list[:most]), fmt.Sprintf("%d more", more))
	}
	return []string{Signed + strings.Join(list, "; ")}
}

// ToolSign is the name under which questions about signatures are asked.
const ToolSign = "sign"
