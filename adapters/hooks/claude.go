package hooks

import "encoding/json"

// claudeCode is Claude Code: PreToolUse, whose decision is in hookSpecificOutput. A
// status other than 0 and 2, no output, and a timeout let the call through, unless the
// hook's entry says onFailure.
func claudeCode() *Runtime {
	return &Runtime{
		Name: "claude-code", before: "PreToolUse", end: "SessionEnd", asks: true,
		tools: with(
			own("TodoWrite", "TodoRead", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "Task", "Agent",
				"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "ToolSearch",
				"BashOutput", "KillBash", "KillShell", "TaskOutput", "TaskStop"),
			map[string]tool{
				"Bash":         {command: "command", beside: []string{"description", "timeout", "run_in_background"}},
				"Read":         {translate: readsFile("file_path")},
				"Write":        {translate: writesFile("file_path", "content")},
				"Edit":         {translate: editsFile("file_path", "replace_all")},
				"MultiEdit":    {translate: editsFileOften("file_path", "edits")},
				"NotebookRead": {translate: readsFile("notebook_path")},
				"NotebookEdit": {translate: touchesFile("notebook_path"), opaque: true},
				"Glob":         {translate: searches("glob", "pattern", "path")},
				"Grep":         {translate: searches("grep", "pattern", "path")},
				"LS":           {translate: searches("list_files", "", "path")},
			}),
		encode: func(a Answer) Output { return preToolUse(a, true) },
		spills: claudeSpills,
		settings: settings{
			file: ".claude/settings.json", home: "CLAUDE_CONFIG_DIR", before: "PreToolUse", matcher: "*", end: "SessionEnd",
			seconds: 1, block: true,
		},
	}
}

// preToolUseOutput is what a PreToolUse hook answers, in Claude Code and in Codex.
type preToolUseOutput struct {
	Continue      *bool         `json:"continue,omitempty"`
	StopReason    string        `json:"stopReason,omitempty"`
	SystemMessage string        `json:"systemMessage,omitempty"`
	Specific      *preToolUseIs `json:"hookSpecificOutput,omitempty"`
}

type preToolUseIs struct {
	Event    string          `json:"hookEventName"`
	Decision string          `json:"permissionDecision"`
	Reason   string          `json:"permissionDecisionReason,omitempty"`
	Input    json.RawMessage `json:"updatedInput,omitempty"`
}

// preToolUse writes an answer. allows is set if the runtime knows "allow" without other
// input, and the end of a turn.
func preToolUse(a Answer, allows bool) Output {
	out := preToolUseOutput{SystemMessage: a.Note}
	is := &preToolUseIs{Event: "PreToolUse", Reason: a.words()}
	switch a.Verdict {
	case Abstain:
		return stdout(struct{}{})
	case Allow:
		is.Decision, is.Input = "allow", a.Input
		if a.Reason == "" {
			is.Reason = ""
		}
	case Ask:
		is.Decision = "ask"
	default:
		is.Decision = "deny"
		if stop := false; a.Stop && allows {
			out.Continue, out.StopReason = &stop, a.words()
		}
	}
	out.Specific = is
	return stdout(out)
}
