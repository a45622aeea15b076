package supervisor

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/batch"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/frozen"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/supervisor/review"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
)

// Config has the parts of a Supervisor. Every field is required unless its comment says
// otherwise.
type Config struct {
	Version    string
	ConfigFile string // "" is the embedded default
	// Sources are all files that the configuration is merged from, for the log.
	Sources   []config.Source
	Tools     *tools.Registry
	Approvals *approval.Controller
	Mode      approval.Mode
	Log       *audit.Log
	// Operator bounds every call; the zero Profile grants nothing, Top bounds nothing.
	Operator sandboxprofile.Profile
	// Own are sandgate's own files and directories: no answer gives them to a program.
	Own []string
	// Confiner is nil if this host cannot confine; Unconfined then says why, and
	// every call is refused with it.
	Confiner   confine.Confiner
	Unconfined error
	// SessionConfiner makes the confiner of one session, which is closed with it;
	// nil means that every session uses Confiner.
	SessionConfiner func() SessionConfiner
	// Tried describes what confined a trial sandbox at the start, for status; the zero value means
	// that none was built.
	Tried confine.Enforced
	// Recovered lists files that calls of a crashed supervisor had planted, and what was done with
	// them.
	Recovered []confine.Planted
	// Egress bounds tools whose profile has an allow-list of hosts.
	Egress gateway.Config
	// Rules are the standing rules; with nil there are none, and none can be added.
	Rules *rulebook.Book
	// Workdir and Paths describe the directories that tools can reach, for tools.list.
	Workdir string
	Paths   []protocol.PathView
	// Orphans are requests that an earlier supervisor left waiting; it may be nil.
	Orphans Orphans
	// Tasks bounds what runs in the background; its zero value lets nothing run there.
	Tasks background.Limits
	// Changes keeps what calls change, so that it can be undone; nil keeps nothing.
	Changes *changes.Store
	// Caches is where what can be made again is kept between calls: nothing there is to be undone.
	Caches string
	// BeginDraft makes a draft for what is reviewed; nil makes none.
	BeginDraft func(context.Context) (review.Draft, error)
	// DraftOver are the directories that a draft covers, if calls work on one: they may
	// write nowhere else. nil means that there is no draft.
	DraftOver []string
	// MCP is about third-party MCP servers; its zero value has none.
	MCP mcphost.Config
	// Decided, if not nil, is called with every decision and its subject in words, without secrets,
	// before the call continues. It must not block.
	Decided func(d approval.Decision, subject string)
	// Warnings are said in status and in every result.
	Warnings []string
	// Notices are about the configuration's own text, and said in status: no result is looser for them.
	Notices []string
	// Faults takes what an operator should know and no call tells; nil discards it.
	Faults *slog.Logger
	// HTTP is shown in status: the address of a server beside this supervisor, or nil.
	HTTP *protocol.HTTPStatus
}

// Orphans are requests whose supervisor ended before it had recorded their end.
type Orphans interface {
	// Waiting lists them, the oldest first.
	Waiting() []approval.Pending
	// Discard forgets them. It is called once their end is in the log.
	Discard() error
}

// A SessionConfiner keeps sandboxes for one session and no other.
type SessionConfiner interface {
	confine.Confiner
	io.Closer
}

// A Supervisor takes calls. Make one with New.
type Supervisor struct {
	cfg      Config
	profiles bounds.Profiles
	started  time.Time
	total    atomic.Int64
	logged   sync.Map // digests of the profiles that are in the log
	// auditFailure is the last error of the log, nil once it works again.
	auditFailure atomic.Pointer[error]
	owed         history.Owed
	shortages    failure.Shortages
	unkept       []string // keeps that failed; guarded by mu
	orphans      int      // set by New
	// enforced says how the last program was confined; before the first, Config.Tried.
	enforced atomic.Pointer[confine.Enforced]
	ports    gateway.Ports
	frozen   frozen.Files

	naming sync.Mutex // while a named session is opened; before mu

	mu       sync.Mutex
	sessions map[protocol.SessionID]*session
	named    map[sessionName]*session
	calls    map[int64]*call // under way, by their number
	running  sync.WaitGroup
	closed   bool

	ctx     context.Context // ends with the supervisor
	stop    context.CancelFunc
	reviews sync.WaitGroup // questions about drafts of sessions that are over

	unsubscribe func()
}

// A session is one agent's conversation: its mode, its memory, its calls.
type session struct {
	id       protocol.SessionID
	agent    string
	name     string // that outlives its connection, or ""
	peer     unixsock.Peer
	mode     approval.Mode
	metadata json.RawMessage // as people and the log have it
	opened   time.Time
	ctx      context.Context
	end      context.CancelCauseFunc

	confiner confine.Confiner
	done     func() // closes the confiner

	// stdin and sink replace the socket's streams for a program that runs in
	// front of a person (`sandgate run`); nil otherwise.
	stdin io.Reader
	sink  *Streams

	draft review.Draft // that its calls work on, or nil

	named *nameHolder // nil for a session that ends with its connection

	tasks   background.Tasks
	servers *mcphost.Processes // nil has none, and starts none
	network gateway.Session

	calls   sync.WaitGroup
	mu      sync.Mutex
	counts  protocol.SessionClosed
	running int
}

// Streams receive the output of a session's programs if no client listens on a socket.
type Streams = outcome.Streams

// A call is the state of one request on its way. Fields are set by the step named
// beside them and read by later ones.
type call struct {
	kind    kind               // receive
	session *session           // receive
	peer    unixsock.Peer      // receive
	req     protocol.ToolsCall // receive
	notify  outcome.Notify     // receive
	started time.Time          // receive
	number  int64              // receive: the calls of this supervisor are counted
	place   *batch.Place       // receive: in a batch, or nil
	// receive: ended is done when an operator has ended the call by kill
	ended context.Context
	kill  context.CancelCauseFunc

	unlisted string // check: what to say of a forecast for a server that does not run

	metadata  json.RawMessage     // receive: as people and the log have it; nil until somebody needs it
	proposal  tools.Proposal      // check, decide: what was approved
	args      json.RawMessage     // check, decide: the arguments that it is for
	digest    string              // check, of the plan
	profile   bounds.KnownProfile // check, of the plan
	warnings  []string            // check, of the profile
	unstarted string              // check: what to say of a program that is not there
	decision  approval.Decision   // decide
	asked     *tools.Plan         // decide: the plan that an approver's edit replaced
	shown     tools.Proposal      // decide: what a person has seen; the zero value if nobody has
	// decide: waits until the entry of the decision is on the disk; nil without one
	durable func() error

	thaw      []func()           // confine: gives frozen files back
	authority *gateway.Authority // confine: of the hosts where TLS ends at the proxy, or nil

	answered *answered                                    // run: of an operation on a task
	result   confine.Result                               // run
	enforced confine.Enforced                             // run
	look     func(begins bool) ([]confine.Planted, error) // run: confine.Watched
	output   *outcome.Output                              // run
	exposed  []protocol.ExposedPort                       // run: where its ports are to be found
	beside   gateway.Questions                            // run: questions beside the call's own
	// run: the JSON value that the program wrote, if it says that it writes one
	structured json.RawMessage
	// run: what was refused, protected names that it made
	violations []protocol.Violation
}

// A subject is what approval decides about: a proposal, and the arguments that it is for.
type subject struct {
	tools.Proposal
	args json.RawMessage
}

// answered is the result of a call that ran nothing in a sandbox of its own.
type answered struct {
	content    []protocol.Content
	structured []byte
}

// A kind is who has made a call, and who waits for it: all that differs between calls on
// their one path, but for what their plans do (acts). awaited is the usual one; the others
// are awaited but for what they say.
type kind interface {
	// propose plans the call.
	propose(ctx context.Context, s *Supervisor, c *call) (tools.Proposal, error)
	// checked is called when the plan is whole.
	checked(c *call)
	// notFound makes a result of an error of propose that says that there is no such program.
	notFound(c *call, err error) bool
	// onDraft is errReview if the call can be carried out on a draft of its own, and else
	// why not.
	onDraft() error
	// question completes the call for approval.
	question(s *Supervisor, c *call, p tools.Proposal, q *approval.Call)
	// open makes what the program writes to, and reads from.
	open(s *Supervisor, c *call, limit int64) error
	// leave is called when the program is about to start.
	leave(s *Supervisor, c *call)
	// over is called when the call is over, and nothing of it runs any more.
	over(c *call)
	// widens reports whether a person may be asked to add something to the call, and run it
	// again, while the agent waits.
	widens() bool
	// staysBehind reports whether the call has been answered before it ends.
	staysBehind() bool
	// lasting reports whether the call goes on for as long as its session.
	lasting() bool
	// external reports whether the agent carries the call out itself.
	external() bool
	// called returns the call's name for people, and how to end it.
	called(c *call) (name, ends string)
}

// A sessionName identifies a named session. The mode is part of it: a session is as strict as
// its creator requested, and a client that requests a stricter one does not get a looser one.
type sessionName struct {
	uid         int
	agent, name string
	mode        approval.Mode
}

// A nameHolder has what a named session has beside others. Supervisor.mu guards it.
type nameHolder struct {
	key sessionName
	in  int // connections that are in the session
	// active are the calls that are not over, of all connections: each names its own.
	active    map[protocol.CallID]bool
	idleSince time.Time
	idle      *time.Timer // closes the session, while nobody is in it
}

// denied says that the call, which was allowed, has been denied since: what it ran into
// was asked about, or what came before it.
func (c *call) denied(d approval.Decision) {
	c.decision.Action, c.decision.Source, c.decision.Scope, c.decision.Rule = approval.Denied, d.Source, "", ""
	c.decision.Approver, c.decision.Reason = d.Approver, d.Reason
	c.decision.Reject, c.decision.Interrupt, c.decision.Feedback = d.Reject, d.Interrupt, d.Feedback
}

// awaitTurn waits until the calls before this one have ended, and withdraws its
// approval if one of them was rejected for the whole batch meanwhile.
func (c *call) awaitTurn(ctx context.Context) error {
	d, err := c.place.Await(ctx)
	if d != nil {
		c.denied(*d)
	}
	return err
}
