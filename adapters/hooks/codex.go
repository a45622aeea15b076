package hooks

import (
	"fmt"
	"strings"
)

// codex is Codex: PreToolUse in the words of Claude Code, of which it knows some. It
// refuses an "allow" without other input, "ask", and a denial without a reason, and what
// it refuses lets the call through; its own approvals and sandbox come after.
func codex() *Runtime {
	return &Runtime{
		Name: "codex", before: "PreToolUse", end: "SessionEnd",
		tools: with(
			own("update_plan", "request_user_input", "get_goal", "spawn_agent"),
			map[string]tool{
				"Bash":        {command: "command", dir: []string{"workdir", "cwd"}, beside: []string{"description", "timeout", "timeout_ms", "justification"}},
				"apply_patch": {translate: patches("command"), opaque: true},
			}),
		encode: func(a Answer) Output {
			if a.Verdict == Allow && a.Input == nil {
				a = Answer{Verdict: Abstain}
			}
			return preToolUse(a, false)
		},
		settings: settings{
			file: ".codex/hooks.json", home: "CODEX_HOME", before: "PreToolUse", matcher: ".*", seconds: 1,
			probe: []string{"codex", "app-server"},
			after: []string{
				"Codex runs a hook only after you trust it: start codex in a terminal and choose to review or trust its hooks",
				"`codex exec` skips an untrusted hook without a message, and then sandgate sees no call. " +
					"Trust it first, or pass --dangerously-bypass-hook-trust to exec; `sandgate hook codex --check` shows whether it runs",
			},
		},
	}
}

// patchHeads begin the lines of a patch that name a file.
var patchHeads = []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"}

// patches asks for every file that a patch names. A line counts if it could be taken for
// one that names a file, wherever it stands: better one question too many.
func patches(member string) translation {
	return func(e event) ([]request, error) {
		patch, err := e.Input.text(member)
		if err != nil {
			return nil, err
		}
		var all []request
		seen := map[string]bool{}
		for line := range strings.Lines(patch) {
			name, ok := patchedFile(line)
			if !ok {
				continue
			}
			at := event{Cwd: e.Cwd, Input: members{"path": quoteJSON(name)}}
			p, err := at.path("path")
			if err != nil {
				return nil, err
			}
			if !seen[p] {
				seen[p] = true
				all = append(all, request{"write_file", map[string]any{"path": p, "content": ""}})
			}
		}
		const most = 64 // each is a decision in the log
		switch {
		case len(all) == 0:
			return nil, &inputError{"the patch does not name a file", "begin each file with " + strings.Join(patchHeads, " or ")}
		case len(all) > most:
			return nil, &inputError{fmt.Sprintf("the patch names more than %d files", most), "split it into several patches"}
		}
		return all, nil
	}
}

// patchedFile is the file that a line names.
func patchedFile(line string) (string, bool) {
	line = strings.TrimLeft(strings.TrimSpace(line), "+- \t")
	for _, head := range patchHeads {
		if name, ok := strings.CutPrefix(line, head); ok {
			return strings.TrimSpace(name), true
		}
	}
	return "", false
}
