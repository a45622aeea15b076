package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Codex ignores a hook that was not trusted, and `codex exec` does not say so. Its
// app server tells which hooks it would run (hooks/list).

// A Prober asks a runtime's own program whether it runs our hook.
type Prober struct {
	// Argv is how the program is started, to be asked on its standard input.
	Argv []string
	r    *Runtime
}

// Prober gives nil for a runtime whose hooks run once they are installed.
func (r *Runtime) Prober() *Prober {
	if len(r.settings.probe) == 0 {
		return nil
	}
	return &Prober{r.settings.probe, r}
}

// Ask writes the questions and reads answers until it knows. It gives nil if our hook
// runs before each tool in dir, and else what is wrong.
func (p *Prober) Ask(dir string, in io.Writer, out io.Reader) error {
	const list = 1
	e := json.NewEncoder(in)
	for _, m := range []map[string]any{
		{"id": 0, "method": "initialize", "params": map[string]any{"clientInfo": map[string]string{"name": "sandgate", "version": "1"}}},
		{"method": "initialized"},
		{"id": list, "method": "hooks/list", "params": map[string]any{"cwds": []string{dir}}},
	} {
		if err := e.Encode(m); err != nil {
			return fmt.Errorf("ask %s: %w", p.Argv[0], err)
		}
	}
	answers := json.NewDecoder(io.LimitReader(out, MaxInput))
	for {
		var m struct {
			ID    *int
			Error *struct{ Message string }
			// Result of hooks/list.
			Result struct {
				Data []struct{ Hooks []listedHook }
			}
		}
		if err := answers.Decode(&m); errors.Is(err, io.EOF) {
			return fmt.Errorf("%s ended without an answer: this version may not support hooks/list", p.Argv[0])
		} else if err != nil {
			return fmt.Errorf("read the answer of %s: %w", p.Argv[0], err)
		}
		switch {
		case m.ID == nil: // a notification
		case m.Error != nil:
			return fmt.Errorf("%s: %s", p.Argv[0], m.Error.Message)
		case *m.ID == list:
			var all []listedHook
			for _, d := range m.Result.Data {
				all = append(all, d.Hooks...)
			}
			return p.r.held(all)
		}
	}
}

type listedHook struct {
	EventName, Command, Matcher, TrustStatus string
	Enabled                                  bool
}

// held reports what keeps every hook of ours from running; one that runs is enough.
func (r *Runtime) held(all []listedHook) error {
	err := errors.New("sandgate's hook is not installed, or hooks are disabled")
	for _, h := range all {
		switch {
		case !strings.EqualFold(h.EventName, r.settings.before) || !r.ours(h.Command):
		case !h.Enabled:
			err = errors.New("the hook is disabled")
		case h.Matcher != r.settings.matcher:
			err = fmt.Errorf("the hook runs for the tools %q only", h.Matcher)
		case h.TrustStatus != "trusted" && h.TrustStatus != "managed":
			err = fmt.Errorf("the hook is %s", h.TrustStatus)
		default:
			return nil
		}
	}
	return err
}
