package supervisor

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// shellCall runs a line of shell in a real sandbox and gives its violations.
func shellCall(t *testing.T, f *fixture, line string) ([]protocol.Violation, *protocol.Error) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"argv": []string{"/bin/bash", "-c", line}})
	if err != nil {
		t.Fatal(err)
	}
	r, e := f.call(context.Background(), "run", string(args))
	if e != nil && e.Result != nil {
		return e.Result.Violations, e
	}
	return r.Violations, e
}

// TestRefusalsAreReported runs real programs in a real sandbox. Beside each that
// is refused, the same one does the same where it may.
func TestRefusalsAreReported(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	outside := t.TempDir() // private to the host: the sandbox has its own /tmp
	writeFile(t, outside+"/there", "x")
	for _, c := range []struct{ name, refused, granted, want string }{
		{"a file that is there", "cat " + outside + "/there", "cat fib.py", "inferred file read " + outside + "/there"},
		{"a file that is not", "cat " + outside + "/absent", "cat fib.py", "inferred file read " + outside + "/absent"},
		{"touch", "touch /usr/refused", "touch granted", "inferred file write /usr/refused"},
		{"redirection", "echo x > /usr/refused", "echo x > granted", "inferred file write /usr/refused"},
		{"python", `python3 -c 'open("/usr/refused", "w")'`, `python3 -c 'open("granted", "w")'`, "inferred file write /usr/refused"},
		{"a file system's root", "mkdir /refused", "mkdir granted.d", "inferred file write /refused"},
		{"system call", "unshare -U true", "setsid true", "inferred system_call unshare"},
		{"host", "exec 3<>/dev/tcp/example.com/80", "true", "inferred network example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, e := shellCall(t, f, c.refused)
			if e != nil {
				t.Fatalf("%v: %s", e, e.HintText)
			}
			if !slices.Contains(kinds(got), c.want) {
				t.Errorf("%s: got %q, want %q", c.refused, kinds(got), c.want)
			}
			if got, e := shellCall(t, f, c.granted); e != nil || len(got) != 0 {
				t.Errorf("%s: got %q, %v", c.granted, kinds(got), e)
			}
		})
	}
}

// kinds writes violations as the tests have them.
func kinds(list []protocol.Violation) []string {
	var out []string
	for _, v := range list {
		out = append(out, strings.Join(strings.Fields(strings.Join([]string{string(v.Basis), string(v.Kind), string(v.Right), v.Path, v.Host, v.SystemCall, v.Limit}, " ")), " "))
	}
	return out
}

// TestExistenceIsNotInTheAnswer: a call about a path that is not granted has the
// same violations before and after somebody makes it.
func TestExistenceIsNotInTheAnswer(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	secret := t.TempDir() + "/secret"
	line := "cat " + secret + "; ls " + secret + "; touch " + secret
	before, e := shellCall(t, f, line)
	if e != nil || len(before) == 0 {
		t.Fatalf("got %v, %v", before, e)
	}
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, e := shellCall(t, f, line)
	if e != nil || !slices.Equal(before, after) {
		t.Errorf("before %+v\nafter %+v, %v", before, after, e)
	}
}

func TestLimitsAreObserved(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) {
		p.Limits.FileSize, p.Limits.Output = 4096, 1000
	}})
	for _, c := range []struct{ line, want string }{
		{"exec head -c 8192 /dev/zero > big", "observed limit file_size"},
		{"exec yes", "observed limit output"}, {"head -c 4000 /dev/zero", "observed limit output"},
		{"head -c 4000 /dev/zero > small", ""},
	} {
		got, _ := shellCall(t, f, c.line)
		if strings.Join(kinds(got), ",") != c.want {
			t.Errorf("%s: got %q, want %q", c.line, kinds(got), c.want)
		}
	}
}

// TestFileToolsObserve: the sandbox's own init answers with an errno, and needs
// nobody's words.
func TestFileToolsObserve(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	args := `{"path": "a.txt", "content": "x"}`
	if r, e := f.call(context.Background(), "write_file", args); e != nil || len(r.Violations) != 0 {
		t.Fatalf("got %+v, %v", r.Violations, e)
	}
	f = newFixture(t, setup{mode: approval.ApproveAll})
	f.cfg.Operator = sandboxprofile.Top()
	f.cfg.Operator.Paths = map[string]sandboxprofile.Rights{"/": sandboxprofile.Read | sandboxprofile.Execute}
	r, e := f.call(context.Background(), "write_file", args)
	if e != nil {
		t.Fatal(e)
	}
	want := "observed file write " + f.ws + "/a.txt"
	if got := kinds(r.Violations); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}
