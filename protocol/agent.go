package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
)

// Empty is the result of a request that has nothing to tell.
type Empty struct{}

// Program names a program and its version.
type Program struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// InitializeParams open a connection.
type InitializeParams struct {
	ProtocolVersion int     `json:"protocol_version"`
	Client          Program `json:"client"`
	// RawOutput asks for output as it is, behind the line of each tool.output.
	RawOutput bool `json:"raw_output,omitempty"`
}

// Initialized is the answer to initialize.
type Initialized struct {
	ProtocolVersion int     `json:"protocol_version"`
	Server          Program `json:"server"`
	Limits          Limits  `json:"limits"`
	// ToolsDigest changes when a tool's definition does.
	ToolsDigest string `json:"tools_digest,omitempty"`
}

// Limits bound what one connection may request from the server at once.
type Limits struct {
	MessageBytes int `json:"message_bytes"`
	Calls        int `json:"calls"`
	Sessions     int `json:"sessions"`
}

// SessionOpen asks for a session.
type SessionOpen struct {
	// Agent is the agent's own name. It labels prompts and remembered answers, but does not
	// authenticate the agent.
	Agent string `json:"agent"`
	// Metadata is any JSON; it is recorded and never interpreted.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Mode can only tighten the operator's own; "" leaves it.
	Mode approval.Mode `json:"mode,omitempty"`
	// Name makes the session outlive its connection: any process of the same user that opens a
	// session with the same agent, mode and name joins it, until it is closed or has been empty for
	// half an hour.
	Name string `json:"name,omitempty"`
	// Review has all calls of the session work on a draft of what they may write. At its end a
	// person is asked what of it is kept.
	Review bool `json:"review,omitempty"`
}

// SessionOpened is the answer to session.open.
type SessionOpened struct {
	SessionID SessionID     `json:"session_id"`
	Mode      approval.Mode `json:"mode"` // what holds in the session
	// Resumed is set if the session was there already.
	Resumed bool `json:"resumed,omitempty"`
	// Draft is the display name of the draft of a session under review.
	Draft string `json:"draft,omitempty"`
}

// SessionClose ends a session: its calls are cancelled, its sandboxes are
// removed and what it remembered is forgotten.
type SessionClose struct {
	SessionID SessionID `json:"session_id"`
}

// SessionClosed counts what happened in a session.
type SessionClosed struct {
	Calls     int `json:"calls"`
	Completed int `json:"completed"` // ran to an end of their own
	Refused   int `json:"refused"`   // blocked, denied, or not answered
	Failed    int `json:"failed"`    // everything else
}

// ToolsListParams ask for a session's tools.
type ToolsListParams struct {
	SessionID SessionID `json:"session_id"`
}

// ToolsList is the answer to tools.list.
type ToolsList struct {
	Tools  []Tool `json:"tools"`
	Digest string `json:"tools_digest,omitempty"`
	// Warnings say which MCP servers could not be asked, and why.
	Warnings []string `json:"warnings,omitempty"`
	// Workdir is where programs and the relative paths of file tools start.
	Workdir string `json:"workdir,omitempty"`
	// Paths are the directories that tools reach, in the order of the configuration.
	Paths []PathView `json:"paths,omitempty"`
}

// A PathView is a named directory of the configuration as tools see it.
type PathView struct {
	Name string `json:"name"`
	Root string `json:"root"`
	// FileTools and Programs are the rights on it.
	FileTools Access `json:"file_tools"`
	Programs  Access `json:"programs"`
	// Suffixes are the only endings of names that file tools may use; none is any.
	Suffixes []string `json:"suffixes,omitempty"`
}

// Access says what a kind of tool may do with a directory.
type Access string

// The three kinds of access. The zero value is not a valid Access.
const (
	AccessNone Access = "none" // it is not shown
	AccessRead Access = "ro"
	AccessFull Access = "rw"
)

// A Tool is a tool's definition, in the spelling of the Model Context Protocol.
type Tool struct {
	Name        ToolName        `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations Annotations     `json:"annotations"`
	// Unavailable says why every call of the tool is refused at the moment.
	Unavailable string `json:"unavailable,omitempty"`
	// Origin is set for a tool of an MCP server.
	Origin *Origin `json:"origin,omitempty"`
}

// An Origin is where a tool comes from: an MCP server, and the server's own name for it.
type Origin struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Annotations are hints about a tool, in the words of the Model Context Protocol.
type Annotations = approval.Annotations

// ToolsCall asks for one call, or with tools.check what it would do.
type ToolsCall struct {
	SessionID SessionID `json:"session_id"`
	CallID    CallID    `json:"call_id"`
	Tool      ToolName  `json:"tool"`
	// Args is a JSON object. Read it with [ToolsCall.DecodeArgs].
	Args json.RawMessage `json:"args,omitempty"`
	// GroupID marks calls that a model made in one turn: a hard rejection of one
	// ends the others.
	GroupID string `json:"group_id,omitempty"`
	// BatchRemaining lists the calls that would follow this one, for the approver.
	BatchRemaining []BatchItem `json:"batch_remaining,omitempty"`
	// TimeoutMS shortens the tool's time limit, in milliseconds; 0 leaves it.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// OneStream gives the program one pipe for both streams, so that the output keeps the order
	// in which it was written. All of it is then stdout. It changes nothing for a tool whose
	// output is read as JSON.
	OneStream bool `json:"one_stream,omitempty"`
	// Metadata is a JSON object; it is recorded and widens nothing.
	Metadata map[string]any `json:"metadata,omitempty"`
	// Defer asks not to wait for an approver: the call answers approval_required
	// with an approval id, to be sent again in ApprovalID after the decision.
	Defer      bool       `json:"defer,omitempty"`
	ApprovalID ApprovalID `json:"approval_id,omitempty"`
}

// ToolsBatch asks for the calls of one turn, in their order. Approvers see them
// as one group. Each is decided by itself, and starts when those before it have
// ended; a hard rejection of one ends those after it.
type ToolsBatch struct {
	SessionID SessionID `json:"session_id"`
	// GroupID is as for tools.call; if it is empty, the server chooses one.
	GroupID string      `json:"group_id,omitempty"`
	Calls   []BatchCall `json:"calls"` // 1 to 64
}

// A BatchCall is one call of a batch: as ToolsCall.
type BatchCall struct {
	CallID    CallID          `json:"call_id"`
	Tool      ToolName        `json:"tool"`
	Args      json.RawMessage `json:"args,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	OneStream bool            `json:"one_stream,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
}

// maxBatch is how many calls a batch may have: each may be a question, and a
// person has to read them.
const maxBatch = 64

// BatchResult answers tools.batch: what came of each call, in the order in which
// they were given.
type BatchResult struct {
	Results []BatchOutcome `json:"results"`
}

// A BatchOutcome has a result or an error, as tools.call would have given.
type BatchOutcome struct {
	CallID CallID      `json:"call_id"`
	Result *CallResult `json:"result,omitempty"`
	Error  *Error      `json:"error,omitempty"`
}

// ToolsCalls are the calls of the batch in one group, each with what comes after it.
func (b *ToolsBatch) ToolsCalls(group string) []ToolsCall {
	calls := make([]ToolsCall, len(b.Calls))
	var remaining []BatchItem
	for i := len(b.Calls) - 1; i >= 0; i-- {
		c := b.Calls[i]
		calls[i] = ToolsCall{
			SessionID: b.SessionID, CallID: c.CallID, Tool: c.Tool, Args: c.Args, GroupID: group,
			BatchRemaining: remaining, TimeoutMS: c.TimeoutMS, OneStream: c.OneStream, Metadata: c.Metadata,
		}
		remaining = append([]BatchItem{{Tool: c.Tool, Arguments: c.Args}}, remaining...)
	}
	return calls
}

// A BatchItem is a call that is still to come.
type BatchItem struct {
	Tool      ToolName        `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// String is the tool and its arguments. Arguments that are given as a string, as models
// give them, stand as they were given and not quoted a second time.
func (b BatchItem) String() string {
	args := string(b.Arguments)
	var given string
	if json.Unmarshal(b.Arguments, &given) == nil && args != "null" {
		args = given
	}
	return strings.TrimSpace(string(b.Tool) + " " + args)
}

// DecodeArgs returns the arguments with numbers as json.Number, so that a large
// integer means to the approver what it means to the tool. Missing arguments
// are an empty object.
func (c ToolsCall) DecodeArgs() (map[string]any, error) {
	args := map[string]any{}
	if len(c.Args) == 0 {
		return args, nil
	}
	d := json.NewDecoder(strings.NewReader(string(c.Args)))
	d.UseNumber()
	if err := d.Decode(&args); err != nil || args == nil {
		return nil, &FieldError{Path: "params.args", Reason: "must be an object"}
	}
	return args, nil
}

// ToolsCancel stops a call under way.
type ToolsCancel struct {
	CallID CallID `json:"call_id"`
}

// CallResult is the outcome of a call. If a program fails by itself, that is a result with its
// exit code, not an error.
type CallResult struct {
	Content    []Content       `json:"content"`
	Structured json.RawMessage `json:"structured,omitempty"`

	ExitCode    int    `json:"exit_code"`        // 128+N after signal N, 127 not found, 126 not executable
	Signal      string `json:"signal,omitempty"` // "SIGKILL"
	DurationMS  int64  `json:"duration_ms"`      // of the tool alone, without waiting for an approver
	Truncated   bool   `json:"truncated"`        // some output was dropped
	StdoutBytes int64  `json:"stdout_bytes"`     // written by the program, whether kept or dropped
	StderrBytes int64  `json:"stderr_bytes"`

	// Violations lists the accesses that the sandbox refused, and violations of the profile that
	// were detected or undone after the call.
	Violations []Violation `json:"violations,omitempty"`
	Decision   Decision    `json:"decision"`
	PlanDigest string      `json:"plan_digest"`
	EnforcedBy EnforcedBy  `json:"enforced_by"`
	Warnings   []string    `json:"warnings,omitempty"`
	// Exposed are the ports of the sandbox that the host could connect to, while the
	// call ran or as long as its task does.
	Exposed []ExposedPort `json:"exposed,omitempty"`
}

// An ExposedPort is a TCP port inside of a sandbox, and where the host reaches it: on
// this port of 127.0.0.1 and of ::1.
type ExposedPort struct {
	Port    int    `json:"port"`
	Address string `json:"address"` // "127.0.0.1:8080"
}

// Content is one piece of a result, much as in the Model Context Protocol.
type Content struct {
	Type ContentType `json:"type"`
	// Stream is set for what a program wrote.
	Stream   Stream `json:"stream,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     []byte `json:"blob,omitempty"` // base64 on the wire
	MIMEType string `json:"mimeType,omitempty"`
	// Omitted is how many bytes of the program's output are left out where this piece
	// stands. It has no stream, and its text says the same in words.
	Omitted int64 `json:"omitted,omitempty"`
}

// ContentType is text or blob.
type ContentType string

// The two kinds of content.
const (
	ContentText ContentType = "text"
	ContentBlob ContentType = "blob"
)

// Stream is stdout or stderr.
type Stream string

// The two streams of a program.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// NewContent holds data as text if it is well-formed UTF-8, and as a blob if not.
func NewContent(s Stream, data []byte) Content {
	if utf8.Valid(data) {
		return Content{Type: ContentText, Stream: s, Text: string(data)}
	}
	return Content{Type: ContentBlob, Stream: s, Blob: data}
}

// Bytes is the content, whichever kind it is.
func (c Content) Bytes() []byte {
	if c.Type == ContentBlob {
		return c.Blob
	}
	return []byte(c.Text)
}

// A Violation is something that a call did, or tried to do, against its profile.
// Its strings may hold what a program printed: escape them for the place where
// they are shown.
type Violation struct {
	Kind  ViolationKind `json:"kind"`
	Basis Basis         `json:"basis"`

	// Path and Right say which right on which path is not granted; a path without
	// a right is a Unix socket's. Whether there is such a file is not said, and
	// nothing here depends on it.
	Path  string `json:"path,omitempty"`
	Right Right  `json:"right,omitempty"`
	// Host and Port name the refused destination; port 0 means unknown.
	Host string `json:"host,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// SystemCall is the name of a call that the filter refuses.
	SystemCall string `json:"system_call,omitempty"`
	// Limit is the name of a limit that was used up, as sandbox.limits has it.
	Limit string `json:"limit,omitempty"`

	Reason string `json:"reason"`
	// Hint tells the model what it can do instead.
	Hint string `json:"hint,omitempty"`
	// Allow is the line of the configuration, or of the operator's profile, that
	// would allow exactly this; "" if no line does.
	Allow string `json:"allow,omitempty"`
}

// ViolationKind is the axis of the profile that a violation is about.
type ViolationKind string

// The kinds of violation. One without a kind is about files.
const (
	ViolationFile       ViolationKind = "file"
	ViolationNetwork    ViolationKind = "network"
	ViolationSystemCall ViolationKind = "system_call"
	ViolationLimit      ViolationKind = "limit"
)

// Basis is how a violation is known.
type Basis string

// Observed means that sandgate or the kernel reported the refusal. Inferred means that it was
// derived from a program's output and the profile: the refusal is real if the output is true;
// that the profile does not grant the access is certain.
const (
	Observed Basis = "observed"
	Inferred Basis = "inferred"
)

// Right is one of the rights of a profile on a path.
type Right string

// The three rights.
const (
	RightRead    Right = "read"
	RightWrite   Right = "write"
	RightExecute Right = "execute"
)

// A Decision says whether a call was allowed, and who or what decided. It is what a client
// learns of an approval.Decision, which also names the request, the digests and the time.
type Decision struct {
	Action   approval.Action `json:"action"`
	Source   string          `json:"source,omitempty"` // the step of the order that decided
	Scope    approval.Scope  `json:"scope,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Approver string          `json:"approver,omitempty"`
	Feedback string          `json:"feedback,omitempty"` // from the approver, for the model
	Rule     string          `json:"rule,omitempty"`     // of the tool's configuration
	// Mode says how a denial affects the calls that follow.
	Mode approval.RejectMode `json:"mode,omitempty"`
	// Interrupt asks the agent to end its turn and wait for the user, whatever
	// else it had in mind.
	Interrupt bool `json:"interrupt,omitempty"`
	// Args are the arguments that ran, if the approver edited them.
	Args json.RawMessage `json:"args,omitempty"`
}

// EnforcedBy names the mechanism that holds each axis of a profile; an empty
// string means that nothing does. It is confine.Enforced, which a client does not link: the
// compiler holds the two alike.
type EnforcedBy struct {
	Backend     string `json:"backend"`
	Files       string `json:"files"`
	Network     string `json:"network"`
	SystemCalls string `json:"system_calls"`
	Processes   string `json:"processes"`
	Limits      string `json:"limits"`
	// Ceiling is the class of a call that no person has allowed, and what held it to
	// that: "" for a call that a person has.
	Ceiling string `json:"ceiling,omitempty"`
}

// CheckDecision is allow, ask or deny.
type CheckDecision string

// What tools.check answers.
const (
	CheckDeny  CheckDecision = "deny"
	CheckAsk   CheckDecision = "ask"
	CheckAllow CheckDecision = "allow"
)

// CheckResult says what a call would do. Nothing was run, asked or remembered.
type CheckResult struct {
	Decision CheckDecision `json:"decision"`
	// Rule names what decides: a rule of the configuration, a mode or a remembered answer.
	Rule       string          `json:"rule,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Hint       string          `json:"hint,omitempty"`
	PlanDigest string          `json:"plan_digest,omitempty"`
	Plan       json.RawMessage `json:"plan,omitempty"`
	Profile    json.RawMessage `json:"profile,omitempty"`
	Warnings   []string        `json:"warnings,omitempty"`
}

// ToolOutput is a piece of what a running tool wrote. Exactly one of Text and
// Base64 is used: text when the piece is well-formed UTF-8. The pieces of a
// stream, decoded and put together in order, are the stream; of more than the output
// limit they are its beginning and, after a piece with Omitted, its end.
type ToolOutput struct {
	CallID CallID `json:"call_id"`
	Stream Stream `json:"stream"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	// Omitted is how many bytes of the stream are left out before this piece, which
	// may be empty then.
	Omitted int64 `json:"omitted,omitempty"`
	// RawBytes is how many bytes follow the line of this message, which are the piece. Only a
	// client gets it that has asked for raw_output.
	RawBytes int64 `json:"raw_bytes,omitempty"`
}

// NewToolOutput wraps a piece of output.
func NewToolOutput(id CallID, s Stream, data []byte) ToolOutput {
	if utf8.Valid(data) {
		return ToolOutput{CallID: id, Stream: s, Text: string(data)}
	}
	return ToolOutput{CallID: id, Stream: s, Base64: data}
}

// Bytes is the piece of output.
func (o ToolOutput) Bytes() []byte {
	if len(o.Base64) > 0 {
		return o.Base64
	}
	return []byte(o.Text)
}

// ToolState says how far a call is.
type ToolState struct {
	CallID CallID `json:"call_id"`
	State  State  `json:"state"`
	// ApprovalID is set while a call waits for an answer.
	ApprovalID ApprovalID `json:"approval_id,omitempty"`
	// Exposed comes with running: the ports that the host can connect to from now on.
	Exposed []ExposedPort `json:"exposed,omitempty"`
}

// State is pending, running or done.
type State string

// The states of a call, in their order. A refused call goes from pending to done.
const (
	Pending State = "pending" // a person is being asked
	Running State = "running"
	Done    State = "done"
)

// maxName bounds names that people read, in bytes.
const maxName = 200

// checkName refuses names that are empty, long, or would not show as they are:
// control characters, bidirectional overrides, invisible letters.
func checkName(path, name string) error {
	if name == "" {
		return &FieldError{Path: path, Reason: "missing"}
	}
	if len(name) > maxName {
		return &FieldError{Path: path, Reason: fmt.Sprintf("longer than %d bytes", maxName)}
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return &FieldError{Path: path, Reason: fmt.Sprintf("must not contain the unprintable character %U", r)}
		}
	}
	return nil
}

var (
	// Both are compiled when the first name is read: they take a tenth of the program's start.
	agentName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[\pL\pN][\pL\pN\pM]*([ ._@/+-][\pL\pN][\pL\pN\pM]*)*$`)
	})
	// ownWords are what prompts and records say in sandgate's name. What passes for one
	// in letters of another alphabet is shown by its code points.
	ownWords = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(^|[^\pL\pN])(sand[._ -]?gate|allow(s|ed)?|approve[sd]?|approval|den(y|ies|ied)|reject(s|ed)?|permit(s|ted)?|trust(s|ed)?|verified|safe|rules?|polic(y|ies)|operator|supervisor|administrator|everybody|remember(s|ed)?)([^\pL\pN]|$)`)
	})
)

// AgentName makes the name of an agent of what a program calls itself, after a word of
// one's own: "mcp/NAME", or the word alone.
func AgentName(word, own string) string {
	const longest = 64
	own = strings.ToValidUTF8(own[:min(len(own), longest)], "")
	parts := strings.FieldsFunc(own, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if name := word + "/" + strings.Join(parts, "-"); checkAgent("", name) == nil {
		return name
	}
	return word
}

// checkAgent refuses a name that could be taken for something that sandgate says: names
// stand at the top of every prompt, and agents choose them.
func checkAgent(path, name string) error {
	if err := checkName(path, name); err != nil {
		return err
	}
	if !agentName().MatchString(name) {
		return &FieldError{Path: path, Reason: "an agent's name is letters and digits, with a single blank or one of ._@/+- between them",
			Hint: "such as my-agent"}
	}
	if m := ownWords().FindStringSubmatch(name); m != nil {
		return &FieldError{Path: path, Reason: fmt.Sprintf("an agent's name must not contain %q: it would look like text of sandgate's", m[2]),
			Hint: "such as my-agent"}
	}
	return nil
}

func checkMode(path string, m approval.Mode) error {
	switch m {
	case "", approval.Interactive, approval.ApproveAll, approval.Strict:
		return nil
	}
	return &FieldError{Path: path, Reason: fmt.Sprintf("unknown mode %q", m),
		Hint: "modes: interactive, approve_all, strict"}
}

// Validate checks what types alone cannot say. So do the others below.
func (p *InitializeParams) Validate() error {
	if p.ProtocolVersion == 0 {
		return &FieldError{Path: "params.protocol_version", Reason: "missing"}
	}
	return checkName("params.client.name", p.Client.Name)
}

func (p *SessionOpen) Validate() error {
	if err := checkAgent("params.agent", p.Agent); err != nil {
		return err
	}
	if err := checkOptionalID("params.name", p.Name); err != nil {
		return err
	}
	return checkMode("params.mode", p.Mode)
}

func (p *SessionClose) Validate() error {
	return checkID("params.session_id", string(p.SessionID))
}

func (p *ToolsListParams) Validate() error {
	return checkID("params.session_id", string(p.SessionID))
}

func (p *ToolsCancel) Validate() error {
	return checkID("params.call_id", string(p.CallID))
}

func (p *ToolsBatch) Validate() error {
	if err := checkOptionalID("params.group_id", p.GroupID); err != nil {
		return err
	}
	if n := len(p.Calls); n == 0 || n > maxBatch {
		return &FieldError{Path: "params.calls", Reason: fmt.Sprintf("%d calls: a batch has 1 to %d", n, maxBatch)}
	}
	seen := map[CallID]bool{}
	for i, c := range p.ToolsCalls("") {
		at := fmt.Sprintf("params.calls[%d]", i)
		if seen[c.CallID] {
			return &FieldError{Path: at + ".call_id", Reason: "given twice", Hint: "give each call its own id"}
		}
		seen[c.CallID] = true
		if err := below(at, c.Validate()); err != nil {
			return err
		}
	}
	return nil
}

// below moves the path of a field error from params to at. The session belongs
// to the whole batch, and stays.
func below(at string, err error) error {
	var f *FieldError
	if errors.As(err, &f) && f.Path != "params.session_id" {
		return &FieldError{Path: at + strings.TrimPrefix(f.Path, "params"), Reason: f.Reason, Hint: f.Hint}
	}
	return err
}

func (p *ToolsCall) Validate() error {
	for _, id := range []struct{ path, id string }{
		{"params.session_id", string(p.SessionID)},
		{"params.call_id", string(p.CallID)},
		{"params.tool", string(p.Tool)},
	} {
		if err := checkID(id.path, id.id); err != nil {
			return err
		}
	}
	if p.TimeoutMS < 0 {
		return &FieldError{Path: "params.timeout_ms", Reason: "must not be negative"}
	}
	if err := checkOptionalID("params.group_id", p.GroupID); err != nil {
		return err
	}
	if err := checkOptionalID("params.approval_id", string(p.ApprovalID)); err != nil {
		return err
	}
	_, err := p.DecodeArgs()
	return err
}
