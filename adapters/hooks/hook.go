package hooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// A Session is where a hook asks: *client.Session is one.
type Session interface {
	Check(ctx context.Context, tool protocol.ToolName, args any, opts ...client.CallOption) (protocol.CheckResult, error)
	Decide(ctx context.Context, d protocol.ToolsDecide) (protocol.ToolsDecided, error)
	Close(ctx context.Context) (protocol.SessionClosed, error)
}

// A Hook answers one runtime.
type Hook struct {
	Runtime *Runtime
	// Command is the beginning of a command line that has the supervisor run the shell
	// command in its last argument, command=..., in the session of the given name. nil
	// leaves commands to the runtime, outside any sandbox.
	Command func(session string) []string
	// ApproversAsk has the supervisor's approvers asked where a person has to be, about
	// what the runtime carries out itself; without it the runtime asks its own user.
	ApproversAsk bool
	// Program is the file of this program, in a directory free of links. It is started outside any sandbox
	// for every call: where a tool could write to it, a tool would answer the next one.
	Program string
	// Scratch is where Claude Code has its temporary files. Alone reports whether a path,
	// reached without links, is a regular file that only this user and root can change or
	// replace. It is false for nil.
	Scratch string
	Alone   func(path string) bool
	// Open opens the session of the supervisor's that stands for the runtime's own of
	// this name; "" is one for this call alone.
	Open func(ctx context.Context, name string) (Session, error)
}

// Answer reads one input and answers it. It always has an answer.
func (h *Hook) Answer(ctx context.Context, input []byte) Answer {
	e, err := parseEvent(input)
	if err != nil {
		return broken(err)
	}
	switch e.Name {
	case h.Runtime.before:
		if e.Tool == "" {
			return broken(errors.New("tool_name is missing"))
		}
		return h.beforeTool(ctx, e)
	case h.Runtime.end:
		return h.endSession(ctx, e)
	}
	return Answer{Broken: true, Reason: fmt.Sprintf("this hook does not answer the event %q", clip(e.Name)),
		Hint: "configure the hook for " + h.Runtime.before + " only: sandgate hook " + h.Runtime.Name + " --install"}
}

func (h *Hook) beforeTool(ctx context.Context, e event) Answer {
	row, known := h.Runtime.tools[e.Tool]
	if row.own {
		return Answer{Verdict: Abstain}
	}
	if row.command != "" {
		return h.command(ctx, e, row)
	}
	requests := []request{foreign(h.Runtime.Name, e)}
	if known {
		var err error
		if requests, err = row.translate(e); err != nil {
			return refused(err)
		}
	}
	if h.readsSpill(e, requests) && h.outOfReach(ctx, e, requests[0].Args["path"]) {
		return Answer{Verdict: Abstain}
	}
	return h.decide(ctx, e, row.opaque, requests)
}

// outOfReach reports whether no tool may write to a file, or put another in its place.
func (h *Hook) outOfReach(ctx context.Context, e event, path any) bool {
	s, err := h.open(ctx, sessionName(e.Session))
	if err != nil {
		return false
	}
	check, err := s.Check(ctx, "write_file", map[string]any{"path": path, "content": ""})
	return err == nil && check.Decision == protocol.CheckDeny
}

// open opens the session, unless what it says could not be relied on.
func (h *Hook) open(ctx context.Context, name string) (Session, error) {
	s, err := h.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	// A file beside it tells of the directory, in which a name could be given another file.
	check, err := s.Check(ctx, "write_file", map[string]any{"path": h.Program + ".new", "content": ""})
	var e *protocol.Error
	switch {
	case errors.As(err, &e) && e.Code == protocol.CodeUnknownTool:
		return s, nil // no tool writes files
	case err != nil:
		return nil, fmt.Errorf("check who can write to %s: %w", h.Program, err)
	case check.Decision != protocol.CheckDeny:
		return nil, &writableError{h.Program}
	}
	return s, nil
}

type writableError struct{ program string }

func (e *writableError) Error() string {
	return fmt.Sprintf("tools can write to %s, the program that answers for them", e.program)
}

func (e *writableError) Hint() string {
	return "install sandgate outside every directory of sandbox.paths"
}

// decide has the supervisor decide about what the runtime carries out itself. The
// strictest of its answers holds.
func (h *Hook) decide(ctx context.Context, e event, opaque bool, requests []request) Answer {
	s, err := h.open(ctx, sessionName(e.Session))
	if err != nil {
		return broken(err)
	}
	ask := protocol.AgentAsks
	if h.ApproversAsk && !opaque {
		ask = protocol.ApproversAsk
	}
	answer := Answer{Verdict: Allow}
	for _, r := range requests {
		args, err := json.Marshal(r.Args)
		if err != nil {
			return broken(err)
		}
		d := protocol.ToolsDecide{Tool: r.Tool, Args: args, Ask: ask, Metadata: map[string]any{"runtime": h.Runtime.Name, "tool": e.Tool}}
		_, err = s.Decide(ctx, d)
		switch a := h.fromError(err, opaque); {
		case err == nil:
		case a.Verdict == Deny:
			return a
		default:
			answer = a
		}
	}
	return answer
}

// fromError is the answer to a call that was not allowed.
func (h *Hook) fromError(err error, opaque bool) Answer {
	var e *protocol.Error
	if err != nil && !errors.As(err, &e) {
		return broken(err)
	}
	if e == nil {
		return Answer{}
	}
	a := Answer{Reason: e.Message, Hint: e.HintText, Stop: e.Decision != nil && e.Decision.Interrupt}
	switch e.Code {
	case protocol.CodeApprovalRequired:
		if a.Verdict, a.Hint = Ask, ""; h.ApproversAsk && opaque {
			a.Verdict, a.Hint = Deny, "an approver cannot see what this tool would write: use a tool that shows it, or a shell command"
		}
	case protocol.CodeDenied, protocol.CodeBlocked, protocol.CodeApprovalTimeout, protocol.CodeNoApprover, protocol.CodeInvalidArguments:
	default:
		a.Broken = true // no decision about the call
	}
	return a
}

// command answers for a shell command. A command that is to run in the sandbox is
// rewritten, and the decision about it is made there. What the sandbox would certainly
// refuse is refused here, where the model gets the clearest message.
func (h *Hook) command(ctx context.Context, e event, row tool) Answer {
	line, err := e.Input.text(row.command)
	if err != nil {
		return refused(err)
	}
	if strings.ContainsRune(line, 0) {
		return refused(&inputError{"the command contains a NUL byte", ""})
	}
	dir, err := e.directory(row.dir...)
	if err != nil {
		return refused(err)
	}
	args := map[string]any{"command": line, "dir": dir}
	if h.Command == nil {
		if err := row.asDecided(e.Input, line); err != nil {
			return refused(err)
		}
		a := h.decide(ctx, e, false, []request{{"shell", args}})
		if a.Verdict == Allow {
			if a.Input, err = rewrite(e.Input, row.command, append(slices.Clone(inBash), line)); err != nil {
				return refused(err)
			}
		}
		return a
	}
	name := sessionName(e.Session)
	s, err := h.open(ctx, name)
	if err != nil {
		return broken(err)
	}
	check, err := s.Check(ctx, "shell", args)
	if err != nil {
		return h.fromError(err, false)
	}
	a := Answer{Verdict: Allow}
	switch check.Decision {
	case protocol.CheckAllow:
	case protocol.CheckAsk:
		a.Note = "sandgate: this command waits for an answer: sandgate approve"
	default:
		return h.refuseCommand(ctx, s, args, check)
	}
	a.Input, err = rewrite(e.Input, row.command, append(h.Command(name), "command="+line))
	if err != nil {
		return refused(err)
	}
	return a
}

// inBash makes sure that a line that ran without a prompt is read by the shell that it was decided for,
// whichever shell the runtime uses. For example, zsh evaluates the argument of exit, and bash takes it for a
// number. No person could edit there, and an editor or a pager takes commands from its input.
var inBash = []string{"env", "GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "EDITOR=false", "VISUAL=false", "GIT_PAGER=cat", "PAGER=cat",
	"bash", "--norc", "--noprofile", "-c", "--"}

// asDecided fails unless a runtime that carries a command out itself runs the very line, and
// where it says: what is decided about must be what runs.
func (row tool) asDecided(in members, line string) error {
	for name := range in {
		if name != row.command && !slices.Contains(row.dir, name) && !slices.Contains(row.beside, name) {
			return &inputError{fmt.Sprintf("sandgate does not know what %s does to the command", clip(name)), "leave it out, or let sandgate run the commands (without --confine=false)"}
		}
	}
	words := append(strings.Fields(strings.ToLower(line)), "", "")
	shell := strings.TrimSuffix(words[0][strings.LastIndexAny(words[0], `/\`)+1:], ".exe")
	if row.unwraps && slices.Contains([]string{"sh", "bash", "zsh", "cmd", "powershell", "pwsh"}, shell) && strings.ContainsAny(words[1][:min(1, len(words[1]))], "-/") {
		return &inputError{"the runtime reads this line differently, without its shell", "write the command without " + clip(words[0]) + " " + clip(words[1])}
	}
	return nil
}

// refuseCommand has a refusal recorded. tools.check leaves no trace, and what is refused
// here never comes to the supervisor again.
func (h *Hook) refuseCommand(ctx context.Context, s Session, args map[string]any, check protocol.CheckResult) Answer {
	raw, err := json.Marshal(args)
	if err == nil {
		_, err = s.Decide(ctx, protocol.ToolsDecide{Tool: "shell", Args: raw, Ask: protocol.AgentAsks,
			Metadata: map[string]any{"runtime": h.Runtime.Name}})
	}
	a := h.fromError(err, false) // nil, if the rules have changed meanwhile: the check still refused it
	a.Verdict = Deny
	a.Reason, a.Hint = cmp.Or(check.Reason, a.Reason), cmp.Or(check.Hint, a.Hint)
	return a
}

func (h *Hook) endSession(ctx context.Context, e event) Answer {
	if name := sessionName(e.Session); name != "" {
		s, err := h.Open(ctx, name)
		if err == nil {
			_, err = s.Close(ctx)
		}
		if err != nil {
			return broken(err)
		}
	}
	return Answer{Verdict: Abstain}
}

// sessionName is the runtime's name for a session, if it can be one here.
func sessionName(name string) string {
	if len(name) > 200 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return name
}

// maxLine bounds a rewritten command line: the runtime hands it to a shell as one
// argument, perhaps quoted once more, and Linux takes no more than 128 KiB.
const maxLine = 100 << 10

// rewrite puts another command line into a tool's input, and leaves the rest of it.
func rewrite(input members, member string, argv []string) (json.RawMessage, error) {
	line := CommandLine(argv)
	if len(line) > maxLine {
		return nil, &inputError{fmt.Sprintf("the command that would run has %d bytes, more than %d", len(line), maxLine),
			"write the data to a file first"}
	}
	out := maps.Clone(input)
	out[member] = quoteJSON(line)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func quoteJSON(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always marshals
	return bytes.TrimSpace(b.Bytes())
}

// CommandLine writes argv for a POSIX shell, every word in single quotes, inside which nothing is special but their end, and to fish a
// backslash, which stands outside of them: no alias, expansion, option or history of the shell that reads it changes a word. Unlike text for
// people, every word is quoted.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = "'" + strings.NewReplacer("'", `'\''`, `\`, `'\\'`).Replace(w) + "'"
	}
	return strings.Join(words, " ")
}

// refused is the answer to an input that the model can mend.
func refused(err error) Answer {
	a := Answer{Reason: err.Error()}
	var in *inputError
	if errors.As(err, &in) {
		a.Hint = in.hint
	}
	return a
}

// broken is the answer where nothing was decided.
func broken(err error) Answer {
	a := Answer{Broken: true, Reason: err.Error()}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		a.Hint = h.Hint()
	}
	return a
}

// Broken is the answer to a failure outside of this package.
func Broken(err error) Answer { return broken(err) }
