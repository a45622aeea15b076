package audit

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newRedactor(t testing.TB) *Redactor {
	t.Helper()
	r, err := NewRedactor(DefaultRules())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRules: every shipped rule proves itself, with its hints, and by all of the
// rules together its examples lose their secret.
func TestRules(t *testing.T) {
	r := newRedactor(t) // checks the examples
	names := map[string]bool{}
	for _, rule := range DefaultRules() {
		if names[rule.Name] {
			t.Errorf("two rules %q", rule.Name)
		}
		names[rule.Name] = true
		if len(rule.Match) == 0 || len(rule.NoMatch) == 0 {
			t.Errorf("rule %q has no example, or no counterexample", rule.Name)
		}
		for _, text := range rule.Match {
			if got := r.String(text); !strings.Contains(got, redactedMark) {
				t.Errorf("rule %q: %q stays %q", rule.Name, text, got)
			}
		}
	}
}

func TestNewRedactorChecksExamples(t *testing.T) {
	for name, rule := range map[string]Rule{
		"bad pattern":        {Name: "x", Pattern: "("},
		"example missed":     {Name: "x", Pattern: "abc", Match: []string{"abd"}},
		"counterexample hit": {Name: "x", Pattern: "abc", NoMatch: []string{"xabcx"}},
		"hint hides example": {Name: "x", Pattern: "abc", Hints: []string{"z"}, Match: []string{"abc"}},
	} {
		if _, err := NewRedactor([]Rule{rule}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	r, err := NewRedactor([]Rule{{Name: "x", Pattern: "a(?P<secret>b+)c", Match: []string{"abc"}, NoMatch: []string{"ac"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.String("abbc abc"); got != "a[redacted:x:2]c a[redacted:x:1]c" {
		t.Errorf("got %q", got)
	}
}

func TestRedactString(t *testing.T) {
	r := newRedactor(t)
	for in, want := range map[string]string{
		"git status": "git status",
		"curl -H 'Authorization: Bearer abc123' u":                           "curl -H 'Authorization: Bearer [redacted:authorization:6]' u",
		"git clone https://u:p@h/x https://v:q@h/y":                          "git clone https://u:[redacted:url-password:1]@h/x https://v:[redacted:url-password:1]@h/y",
		"A_TOKEN=1 B_SECRET=22 make":                                         "A_TOKEN=[redacted:env-assignment:1] B_SECRET=[redacted:env-assignment:2] make",
		"key AKIAIOSFODNN7EXAMPLE.":                                          "key [redacted:aws-access-key:20].",
		"-----BEGIN RSA PRIVATE KEY-----\nab\n-----END RSA PRIVATE KEY-----": "-----BEGIN RSA PRIVATE KEY-----[redacted:private-key:4]-----END RSA PRIVATE KEY-----",
		"xoxb-123456789012-abc":                                              "[redacted:slack-token:21]",
		"bytes \xff stay text":                                               "bytes \uFFFD stay text",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q\n gives %q\n want  %q", in, got, want)
		}
	}
}

func TestRedactJSON(t *testing.T) {
	r := newRedactor(t)
	for _, c := range []struct{ name, in, want string }{
		{"clean data stays", `{"b":1,"a":["x <y>",12345678901234567890,null,true]}`, `{"b":1,"a":["x <y>",12345678901234567890,null,true]}`},
		{"a large number beside a secret", `{"n":12345678901234567890,"password":"p"}`, `{"n":12345678901234567890,"password":"[redacted:secret-field:1]"}`},
		{"nested", `{"a":[{"b":"ghp_0123456789abcdefghijklmnopqrstuvwxyz"}]}`, `{"a":[{"b":"[redacted:github-token:40]"}]}`},
		{"in a key", `{"ghp_0123456789abcdefghijklmnopqrstuvwxyz":1}`, `{"[redacted:github-token:40]":1}`},
		{"hidden by an escape", `{"a":"\u0067hp_0123456789abcdefghijklmnopqrstuvwxyz"}`, `{"a":"[redacted:github-token:40]"}`},
		{"hidden by an escaped slash", `{"a":"https:\/\/u:pw@h"}`, `{"a":"https://u:[redacted:url-password:2]@h"}`},
		{"secret fields", `{"api_key":"a","clientSecret":"b","db.password":"c","DEPLOY_TOKEN":"d","Authorization":"e"}`,
			`{"Authorization":"[redacted:secret-field:1]","DEPLOY_TOKEN":"[redacted:secret-field:1]","api_key":"[redacted:secret-field:1]","clientSecret":"[redacted:secret-field:1]","db.password":"[redacted:secret-field:1]"}`},
		{"a secret number", `{"password":1234}`, `{"password":"[redacted:secret-field:4]"}`},
		{"a secret tree", `{"credentials":{"user":"u","list":["v",true,null,""]}}`, `{"credentials":{"list":["[redacted:secret-field:1]",true,null,""],"user":"[redacted:secret-field:1]"}}`},
		{"fields that only sound alike", `{"key":"k","keys":["a"],"tokens":5,"passed":"yes","monkey":"m","token_count":3,"public_key_path":"p"}`,
			`{"key":"k","keys":["a"],"monkey":"m","passed":"yes","public_key_path":"p","token_count":3,"tokens":5}`},
		{"a path is no field name", `{"/home/u/my-credentials":"rx","/x/api_key":"r"}`, `{"/home/u/my-credentials":"rx","/x/api_key":"r"}`},
		{"an argument vector", `{"argv":["login","--password","hunter2","-v"]}`, `{"argv":["login","--password","[redacted:secret-flag:7]","-v"]}`},
		{"a flag with its value", `{"argv":["login","--token=abc"]}`, `{"argv":["login","--token=[redacted:secret-flag:3]"]}`},
		{"a shell command", `{"argv":["bash","-c","API_KEY=abc make deploy"]}`, `{"argv":["bash","-c","API_KEY=[redacted:env-assignment:3] make deploy"]}`},
		{"an environment", `{"env":["PATH=/bin","DB_PASSWORD=a b c","X=$(y)"]}`, `{"env":["PATH=/bin","DB_PASSWORD=[redacted:env-assignment:5]","X=$(y)"]}`},
	} {
		got, err := r.JSON(json.RawMessage(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if string(got) != c.want {
			t.Errorf("%s: %s\n gives %s\n want  %s", c.name, c.in, got, c.want)
		}
	}
}

// TestRedactTwice: what was redacted is left alone the second time.
func TestRedactTwice(t *testing.T) {
	r := newRedactor(t)
	for _, rule := range DefaultRules() {
		for _, text := range rule.Match {
			once, err := r.JSON(map[string]string{"text": text, "password": "p"})
			if err != nil {
				t.Fatal(err)
			}
			twice, err := r.JSON(once)
			if err != nil || string(twice) != string(once) {
				t.Errorf("%q: once %s, twice %s, %v", text, once, twice, err)
			}
		}
	}
}

var cutMark = regexp.MustCompile(`\[cut:\d+:sha256:[0-9a-f]{64}\]$`)

func TestLongStringsAreCut(t *testing.T) {
	r := newRedactor(t)
	read := func(v any) string {
		t.Helper()
		b, err := r.JSON([]any{v})
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		return s[0]
	}
	if whole := strings.Repeat("é", maxString/2); read(whole) != whole {
		t.Error("a string at the limit was cut")
	}
	if cut := read("x" + strings.Repeat("é", maxString/2)); !cutMark.MatchString(cut) || len(cut) > keepString+100 {
		t.Errorf("a string above the limit became %d bytes: %.100q", len(cut), cut)
	}
	secret := "AKIAIOSFODNN7EXAMPLE"
	across := strings.Repeat("x", keepString-10) + " " + secret + strings.Repeat(" x", maxString)
	if got := read(across); strings.Contains(got, secret[:8]) {
		t.Error("half of a secret remains where the string was cut")
	}
	var many []string
	for range 2 * maxData / maxString {
		many = append(many, strings.Repeat("y", maxString))
	}
	b, err := r.JSON(many)
	if err != nil || len(b) > 200 || !strings.Contains(string(b), `{"cut":"[cut:`) {
		t.Errorf("data above the limit became %d bytes, %v: %.100s", len(b), err, b)
	}
}

// TestFastPathHidesNothing: data that is written without being taken apart is data
// in which the slow path finds nothing.
func TestFastPathHidesNothing(t *testing.T) {
	r := newRedactor(t)
	var pieces []string
	for _, rule := range DefaultRules() {
		pieces = append(pieces, rule.Match...)
		pieces = append(pieces, rule.NoMatch...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"argv", "env", "password", "X_PWD", "A_PAT", "apiKey", "cookie"}), rapid.String()).Draw(rt, "name")
		texts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String())).Draw(rt, "texts")
		b, err := encodeJSON(map[string]any{name: texts})
		if err != nil {
			rt.Fatal(err)
		}
		if !r.clean(b) {
			return
		}
		var tree any
		if err := json.Unmarshal(b, &tree); err != nil {
			rt.Fatal(err)
		}
		slow, err := encodeJSON(r.value("", tree))
		if err != nil || string(slow) != string(b) {
			rt.Fatalf("written as %s, redacted it is %s, %v", b, slow, err)
		}
	})
}

// FuzzRedact: valid JSON stays valid JSON.
func FuzzRedact(f *testing.F) {
	for _, rule := range DefaultRules() {
		for _, text := range append(rule.Match, rule.NoMatch...) {
			b, err := encodeJSON(map[string]any{"text": text, "argv": []string{"--token", text}})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte(`{"a":{"a":[[["\ud800"]]]}}`))
	r := newRedactor(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		once, err := r.JSON(json.RawMessage(b))
		if err != nil || !json.Valid(once) {
			t.Fatalf("%q: %q, %v", b, once, err)
		}
	})
}

// TestSecretsDoNotReachTheDisk: all the ways into an entry.
func TestSecretsDoNotReachTheDisk(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	_, err := l.Append(context.Background(), Record{
		Kind: KindDecision, Call: "c", Agent: "agent " + secret, Tool: secret,
		Data: map[string]any{"argv": []string{"echo", secret}, secret: secret, "raw": json.RawMessage(`"\u0067` + secret[1:] + `"`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if log := string(readLog(t, path)); strings.Contains(log, secret[5:]) || strings.Count(log, "[redacted:github-token:40]") != 6 {
		t.Errorf("the log has the secret, or not six marks:\n%s", log)
	}
}
