package hooks_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/adapters/hooks"
)

// TestOnlyAHookThatRunsHolds: of what Codex lists (0.169.0), a hook of ours counts that is
// switched on, trusted and for every tool; whatever else stands there, and an answer that is
// none, is told as not held.
func TestOnlyAHookThatRunsHolds(t *testing.T) {
	p := hooks.Runtimes()["codex"].Prober()
	hook := func(event, command, matcher, trust string, enabled bool) string {
		return fmt.Sprintf(`{"eventName":%q,"handlerType":"command","command":%q,"matcher":%q,"enabled":%v,"trustStatus":%q,"statusMessage":null}`, event, command, matcher, enabled, trust)
	}
	answer := func(list ...string) string {
		return `{"id":0,"result":{"userAgent":"x"}}` + "\n" + `{"method":"remoteControl/status/changed","params":{}}` + "\n" +
			`{"id":1,"result":{"data":[{"cwd":"/w","hooks":[` + strings.Join(list, ",") + `],"warnings":[],"errors":[]}]}}` + "\n"
	}
	const ours = "'/usr/bin/sandgate' 'hook' 'codex'"
	untrusted := hook("preToolUse", ours, ".*", "untrusted", true)
	for name, c := range map[string]struct{ out, want string }{
		"trusted":            {answer(hook("preToolUse", ours, ".*", "trusted", true)), ""},
		"managed":            {answer(hook("preToolUse", ours, ".*", "managed", true)), ""},
		"one of two":         {answer(untrusted, hook("preToolUse", ours, ".*", "trusted", true)), ""},
		"untrusted":          {answer(untrusted), "the hook is untrusted"},
		"changed since":      {answer(hook("preToolUse", ours, ".*", "modified", true)), "the hook is modified"},
		"switched off":       {answer(hook("preToolUse", ours, ".*", "trusted", false)), "disabled"},
		"for one tool":       {answer(hook("preToolUse", ours, "Bash", "trusted", true)), `"Bash" only`},
		"another event":      {answer(hook("postToolUse", ours, ".*", "trusted", true)), "sandgate's hook is not installed"},
		"another's":          {answer(hook("preToolUse", "other hook codex", ".*", "trusted", true)), "sandgate's hook is not installed"},
		"none":               {answer(), "sandgate's hook is not installed"},
		"unknown method":     {`{"id":0,"result":{}}` + "\n" + `{"id":1,"error":{"code":-32600,"message":"unknown method"}}`, "unknown method"},
		"ends":               {`{"id":0,"result":{}}`, "ended without an answer"},
		"says nothing":       {"", "ended without an answer"},
		"is another program": {"usage: codex\n", "read the answer of codex"},
	} {
		var in bytes.Buffer
		err := p.Ask("/w", &in, strings.NewReader(c.out))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if !strings.Contains(in.String(), `"method":"hooks/list","params":{"cwds":["/w"]}`) {
			t.Errorf("%s: asked %s", name, in.String())
		}
	}
}
