package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/gitsign"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
)

const sendToSign = `
import base64, json, socket, sys
s = socket.create_connection(("127.0.0.1", %d))
s.sendall(b"CONNECT git-signing:80 HTTP/1.1\r\nHost: git-signing:80\r\n\r\n")
f = s.makefile("rb")
while f.readline().strip(): pass
s.sendall(json.dumps({"format": "ssh", "key": %q, "object": base64.b64encode(sys.argv[1].encode()).decode()}).encode())
r = json.loads(f.readline())
print(r.get("error") or base64.b64decode(r["signature"]).decode())
`

// TestSignaturesAreAskedAbout: the question shows the commit, a no is no, a yes for the
// session holds for later commits and not for tags; what is no object asks nobody.
func TestSignaturesAreAskedAbout(t *testing.T) {
	for _, name := range []string{"git", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	home := t.TempDir()
	key := filepath.Join(home, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	writeFile(t, home+"/settings", "[user]\n\tsigningkey = "+key+".pub\n[gpg]\n\tformat = ssh\n")
	t.Setenv("GIT_CONFIG_GLOBAL", home+"/settings")
	t.Setenv("SSH_AUTH_SOCK", "")
	f := newFixture(t, setup{mode: approval.Interactive, profile: func(p *sandboxprofile.Profile) {
		p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{hostrule.OwnRule(gitsign.Host, gitsign.Service)}}}
	}})
	f.cfg.Egress.Signing = &gateway.Signing{Ask: true, Signer: gitsign.Signer{Repository: f.ws, Home: home}}
	writeFile(t, f.ws+"/send.py", fmt.Sprintf(sendToSign, confine.EgressPort, key+".pub"))
	var asked []approval.Pending
	var shown string
	var answer approval.Answer
	f.answer(t, func(p approval.Pending) {
		if p.ToolName != gateway.ToolSign {
			f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
			return
		}
		asked = append(asked, p)
		s, err := f.approvals.Show(context.Background(), p.ID)
		if err != nil || s.Presentation == nil {
			t.Errorf("%v, %+v", err, s)
		} else {
			shown = s.Presentation.Content
		}
		f.mustAnswer(t, p, answer)
	})
	const who = "A <a@b.example> 1700000000 +0000"
	tree := strings.Repeat("a", 40)
	commit := "tree " + tree + "\nauthor " + who + "\ncommitter " + who + "\n\nwhat it says\n"
	tag := "object " + tree + "\ntype commit\ntag v1\ntagger " + who + "\n\na tag\n"
	no := approval.Answer{Approver: "test", Reject: approval.RejectSoft}
	session := approval.Answer{Allow: true, Approver: "test", Scope: approval.Session}
	for _, x := range []struct {
		object, text string
		answer       approval.Answer
		asked        string
	}{
		{"text", "neither a commit nor a tag", session, ""},
		{commit, "the operator said no", no, "Sign a commit in "},
		{commit, "BEGIN SSH SIGNATURE", session, "Sign a commit in "},
		{commit + "more", "BEGIN SSH SIGNATURE", no, ""},
		{tag, "the operator said no", no, "Sign a tag in "},
	} {
		asked, answer = nil, x.answer
		args, _ := json.Marshal(map[string]any{"argv": []string{"python3", "send.py", x.object}})
		r, e := f.call(context.Background(), "run", string(args))
		if e != nil || len(r.Content) == 0 {
			t.Fatal(e, r.Content)
		}
		if text := string(r.Content[0].Bytes()); !strings.Contains(text, x.text) {
			t.Errorf("%q: %s; want %s", x.object, text, x.text)
		}
		refused := slices.ContainsFunc(r.Violations, func(v protocol.Violation) bool { return strings.Contains(v.Reason, "not signed") })
		if signed := strings.HasPrefix(x.text, "BEGIN"); signed == refused {
			t.Errorf("%q: violations %+v", x.object, r.Violations)
		}
		if len(asked) != min(len(x.asked), 1) || len(asked) == 1 && !strings.HasPrefix(asked[0].Description, x.asked) {
			t.Errorf("%q: asked %+v; want %q", x.object, asked, x.asked)
		}
		if all := "  " + strings.ReplaceAll(strings.TrimSpace(x.object), "\n", "\n  ") + "\n"; len(asked) == 1 && !strings.Contains(shown, all) {
			t.Errorf("%q: shown %q", x.object, shown)
		}
	}
	signed := 0
	for _, e := range f.entries(t, audit.KindConnection) {
		if strings.Contains(e, `"protocol":"sign"`) && strings.Contains(e, "a commit of "+tree) {
			signed++
		}
	}
	if signed != 2 {
		t.Errorf("%d signatures are in the log, want 2", signed)
	}
}
