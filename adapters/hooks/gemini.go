package hooks

import "encoding/json"

// gemini is Gemini CLI: BeforeTool, with a decision of its own spelling. Other input is
// merged into the tool's. A status other than 0 and 2, and a timeout, let the call
// through; its own policies come after.
func gemini() *Runtime {
	return &Runtime{
		Name: "gemini-cli", before: "BeforeTool", end: "SessionEnd",
		tools: with(
			own("write_todos", "update_topic", "list_background_processes", "read_background_output", "invoke_agent", "ask_user", "enter_plan_mode", "exit_plan_mode", "get_internal_docs"),
			map[string]tool{
				"run_shell_command":   {command: "command", dir: []string{"dir_path", "directory"}, beside: []string{"description", "is_background", "delay_ms"}, unwraps: true},
				"read_file":           {translate: readsFile("file_path", "absolute_path", "path")},
				"write_file":          {translate: writesFile("file_path", "content")},
				"replace":             {translate: editsFile("file_path", "allow_multiple")},
				"list_directory":      {translate: searches("list_files", "", "dir_path", "path")},
				"glob":                {translate: searches("glob", "pattern", "dir_path", "path")},
				"grep_search":         {translate: searches("grep", "pattern", "dir_path", "path")},
				"search_file_content": {translate: searches("grep", "pattern", "dir_path", "path")},
			}),
		encode: beforeTool,
		spills: geminiSpills,
		settings: settings{
			file: ".gemini/settings.json", before: "BeforeTool", matcher: ".*", end: "SessionEnd", seconds: 1000,
		},
	}
}

type beforeToolOutput struct {
	Continue      *bool         `json:"continue,omitempty"`
	StopReason    string        `json:"stopReason,omitempty"`
	SystemMessage string        `json:"systemMessage,omitempty"`
	Decision      string        `json:"decision,omitempty"`
	Reason        string        `json:"reason,omitempty"`
	Specific      *beforeToolIs `json:"hookSpecificOutput,omitempty"`
}

type beforeToolIs struct {
	Event string          `json:"hookEventName"`
	Input json.RawMessage `json:"tool_input"`
}

func beforeTool(a Answer) Output {
	out := beforeToolOutput{SystemMessage: a.Note}
	switch a.Verdict {
	case Abstain:
	case Allow:
		out.Decision = "allow"
		if a.Input != nil {
			out.Specific = &beforeToolIs{"BeforeTool", a.Input}
		}
	default:
		out.Decision, out.Reason = "deny", a.words()
		if stop := false; a.Stop {
			out.Continue, out.StopReason = &stop, a.words()
		}
	}
	return stdout(out)
}
