package hooks

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// A request is a call of one of the supervisor's tools, which stands for what the runtime
// is about to do.
type request struct {
	Tool protocol.ToolName
	Args map[string]any
}

// A translation makes requests of a runtime's call: all of them have to be allowed.
type translation func(event) ([]request, error)

// A tool is one row of a runtime's table.
type tool struct {
	// command is set for tools that run a command line: the member that holds it. dir are the
	// members that say where, and beside lists those that do not change what runs.
	command string
	dir     []string
	beside  []string
	// unwraps: the runtime drops the shell from "bash -c ..." before it has its own read the
	// rest, in which quotes then mean something else.
	unwraps bool
	// own is set for tools that touch nothing but the runtime itself.
	own bool
	// opaque is set where the requests say which files are written but not their new
	// content. An approver could not see the content, so none is asked.
	opaque    bool
	translate translation
}

// foreign is the request for a tool that is in no table. Its name says which runtime it is
// of, so that it is never taken for one of the supervisor's; the names of the tools of MCP
// servers are the same in all runtimes.
func foreign(runtime string, e event) request {
	name := e.Tool
	if !strings.HasPrefix(name, "mcp__") {
		name = runtime + ":" + name
	}
	args := map[string]any{}
	for k, v := range e.Input {
		args[k] = v
	}
	return request{protocol.ToolName(name), args}
}

func single(tool protocol.ToolName, args map[string]any, err error) ([]request, error) {
	if err != nil {
		return nil, err
	}
	return []request{{tool, args}}, nil
}

// readsFile is a tool that reads the file that one of the members names.
func readsFile(path ...string) translation {
	return func(e event) ([]request, error) {
		p, err := e.path(path...)
		return single("read_file", map[string]any{"path": p}, err)
	}
}

// writesFile replaces a file by the text of a member.
func writesFile(path, content string) translation {
	return func(e event) ([]request, error) {
		p, err := e.path(path)
		if err != nil {
			return nil, err
		}
		text, err := e.Input.string(content)
		return single("write_file", map[string]any{"path": p, "content": text}, err)
	}
}

// editsFile replaces one text by another. An empty old text makes the file.
func editsFile(path, all string) translation {
	return func(e event) ([]request, error) {
		p, err := e.path(path)
		if err != nil {
			return nil, err
		}
		edit, err := editOf(e.Input, all)
		if err != nil {
			return nil, err
		}
		if edit["old_string"] == "" {
			return single("write_file", map[string]any{"path": p, "content": edit["new_string"]}, nil)
		}
		edit["path"] = p
		return single("edit_file", edit, nil)
	}
}

func editOf(in members, all string) (map[string]any, error) {
	edit := map[string]any{}
	for _, name := range []string{"old_string", "new_string"} {
		text, err := in.string(name)
		if err != nil {
			return nil, err
		}
		edit[name] = text
	}
	every, err := in.flag(all)
	if every {
		edit["replace_all"] = true
	}
	return edit, err
}

func editsFileOften(path, edits string) translation {
	return func(e event) ([]request, error) {
		p, err := e.path(path)
		if err != nil {
			return nil, err
		}
		var list []members
		if json.Unmarshal(e.Input[edits], &list) != nil || len(list) == 0 {
			return nil, fmt.Errorf("%s must be a list of edits", edits)
		}
		args := make([]any, len(list))
		for i, in := range list {
			if args[i], err = editOf(in, "replace_all"); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", edits, i, err)
			}
		}
		return single("multi_edit", map[string]any{"path": p, "edits": args}, nil)
	}
}

// touchesFile writes a file in a way that only the runtime knows.
func touchesFile(path string) translation {
	return func(e event) ([]request, error) {
		p, err := e.path(path)
		return single("write_file", map[string]any{"path": p, "content": ""}, err)
	}
}

// searches walks a directory. The pattern of a search for names may lead out of it.
func searches(tool protocol.ToolName, pattern string, directory ...string) translation {
	return func(e event) ([]request, error) {
		dir, err := e.directory(directory...)
		if err != nil {
			return nil, err
		}
		args := map[string]any{"path": dir}
		if pattern == "" {
			return single(tool, args, nil)
		}
		text, err := e.Input.text(pattern)
		if err != nil {
			return nil, err
		}
		if tool == "glob" && (strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~") || strings.Contains(text, "..")) {
			return nil, &inputError{fmt.Sprintf("%s %q leads out of its directory", pattern, clip(text)), "put the directory into " + directory[0]}
		}
		args["pattern"] = text
		return single(tool, args, nil)
	}
}
