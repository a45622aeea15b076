package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	uv "github.com/charmbracelet/ultraviolet"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

const (
	// burst is how long an answer must be alone: keys that come closer to each other are
	// pasted, or held down, and none of them is an answer.
	burst = 40 * time.Millisecond
	// stall is how long the screen may go without a look. After more, such as after the
	// machine slept, what is read first was typed at a screen that nobody kept.
	stall = 2500 * time.Millisecond
)

// A model is the whole state of the screen.
type model struct {
	ctx  context.Context
	opts Options
	now  func() time.Time

	width, height int
	light         bool    // the terminal has said that its background is
	queue         []*item // in their turns
	current       protocol.ApprovalID
	focus         int // index into choices; 0 denies
	scroll        int // first line of the detail on the screen
	help          bool
	reader        *reader
	confirm       *answer   // waits for its key a second time
	edit          *editor   // set by write, and ended by its keys or by whoseText
	asking        *question // what the supervisor is asked about an edit, until it answers
	chooser       *chooser
	away          bool // the pager or the editor has the terminal, or is about to
	denials       bool // the other denials are shown
	deep          bool // all that it may reach is shown
	tomb          *tombstone
	board         *boardView
	gone          present.Gone

	guard   guard.Guard
	start   time.Time // of the guard's clock
	sight   sight
	looks   int           // how often sight has changed
	keys    int           // that have come so far
	lastAt  time.Duration // when the last one came
	seenAt  time.Time     // when the model was last told anything
	touched time.Duration // when a person last did anything here
	click   click
	typist  typist
	alone   func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick
	after   func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick

	notice   string
	notified time.Time
	err      error
}

// An item is one waiting request.
type item struct {
	protocol.Approval
	shown   *protocol.Approval // with its presentation; nil until it has come
	parts   [][]highlight.Part // of its content, by line; nil where nothing is to be coloured
	asked   bool               // Show is under way
	sent    bool               // an answer is under way
	reached int                // how many lines of the detail have been on the screen
	length  int                // how many there are to be seen
	drawn   drawing            // what lines are of
	lines   []string           // see essence
	like    string             // which request that was withdrawn it looks like
	read    bool               // the full text has been in the pager
	problem string             // why there is no presentation
	// After an edit: what the agent had asked for, the arguments in its place, and
	// the text to go on editing from. shown is the edited request then.
	original *protocol.Approval
	args     json.RawMessage
	draft    string
}

// A tombstone stands in the place of a request that ended by another hand.
type tombstone struct {
	item  *item
	ended string
	after protocol.ApprovalID // the next one
}

// A sight is what an answer key would refer to.
type sight struct {
	id      protocol.ApprovalID
	shown   *protocol.Approval
	confirm *answer
	panel   string // what else decides what a key means
}

func newModel(ctx context.Context, o Options, now func() time.Time) *model {
	return &model{ctx: ctx, opts: o, now: now, start: now(), seenAt: now(), lastAt: -burst, typist: typist{last: -1}, alone: tea.Tick, after: tea.Tick}
}

// at is the time of the guard's clock.
func (m *model) at() time.Duration { return m.now().Sub(m.start) }

type (
	eventsMsg []client.Event
	closedMsg struct{}
	tickMsg   struct{}
	// aloneMsg is a key that could be an answer, a moment after it came.
	aloneMsg struct {
		key   tea.KeyPressMsg
		nth   int
		begun time.Duration
	}
	decidedMsg struct {
		ids     []protocol.ApprovalID
		results []protocol.Decided
		err     error
	}
	shownMsg struct {
		id    protocol.ApprovalID
		one   protocol.Approval
		parts [][]highlight.Part
		err   error
	}
	pagedMsg struct {
		id  protocol.ApprovalID
		err error
	}
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.nextEvents(), tick(), tea.RequestBackgroundColor) }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} })
}

// maxEvents bounds how many events one update takes in.
const maxEvents = 256

// nextEvents waits for an event and takes those that are there already with it.
func (m *model) nextEvents() tea.Cmd {
	return func() tea.Msg {
		e, ok := <-m.opts.Events
		if !ok {
			return closedMsg{}
		}
		batch := eventsMsg{e}
		for len(batch) < maxEvents {
			select {
			case e, ok := <-m.opts.Events:
				if !ok {
					return batch // the next wait finds it closed
				}
				batch = append(batch, e)
			default:
				return batch
			}
		}
		return batch
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if m.now().Sub(m.seenAt) > stall {
		m.guard.Moved(m.at())
	}
	m.seenAt = m.now()
	switch msg.(type) {
	case tea.KeyPressMsg, tea.MouseMsg, tea.PasteMsg, tea.FocusMsg:
		m.touched = m.at()
	}
	writing := m.edit
	cmd := m.update(msg)
	_, typed := msg.(tea.KeyPressMsg)
	m.whoseText(writing, typed)
	load := m.load()
	m.look()
	return m, tea.Batch(cmd, load, m.askLater())
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		for _, it := range m.queue {
			it.reached = 0 // lines are not what they were
		}
		m.reader = nil
		m.guard.Moved(m.at())
	case tea.BackgroundColorMsg:
		m.light = !msg.IsDark()
	case tea.FocusMsg: // what was typed elsewhere until now may go on here
		m.guard.Wrote(m.at())
		m.guard.Moved(m.at())
	case tea.KeyPressMsg:
		return m.typed(msg)
	case aloneMsg:
		return m.wasAlone(msg)
	case askNowMsg:
		return m.askNow()
	case uv.PrimaryDeviceAttributesEvent:
		m.terminalAnswers(msg)
	case tea.MouseMsg:
		return m.mouse(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	case tea.ResumeMsg:
		m.sight = sight{}
		m.othersRead()
	case eventsMsg:
		return tea.Batch(m.events(msg), m.nextEvents())
	case closedMsg:
		return m.fail(client.ErrClosed)
	case tickMsg:
		return tea.Batch(tick(), m.loadBoard(false))
	case boardMsg:
		m.boardLoaded(msg)
	case actedMsg:
		return m.acted(msg)
	case shownMsg:
		return m.shown(msg)
	case decidedMsg:
		return m.decided(msg)
	case pagedMsg:
		m.paged(msg)
	case editedMsg:
		return m.edited(msg)
	case previewedMsg:
		return m.previewed(msg)
	case colouredMsg:
		if it := m.find(msg.id); it != nil && it.shown == msg.shown {
			it.parts = msg.parts
		}
	case notifiedMsg:
		m.notice = approval.EscapeLine(msg.err.Error())
	}
	return nil
}

func (m *model) find(id protocol.ApprovalID) *item {
	for _, it := range m.queue {
		if it.ID == id {
			return it
		}
	}
	return nil
}

func (m *model) cursor() *item { return m.find(m.current) }

func (m *model) events(batch []client.Event) tea.Cmd {
	fresh := false
	for _, e := range batch {
		switch e.Kind {
		case client.Requested:
			fresh = m.add(e.Approval) || fresh
		case client.Resolved:
			m.resolved(e)
		}
	}
	if !fresh {
		return nil
	}
	return m.notify()
}

func (m *model) add(a protocol.Approval) bool {
	if m.find(a.ID) != nil {
		return false
	}
	at := len(m.queue)
	for at > 0 && m.queue[at-1].Turn > a.Turn {
		at--
	}
	m.queue = slices.Insert(m.queue, at, &item{Approval: a})
	if m.current == "" && m.tomb == nil {
		m.moveTo(a.ID)
	}
	return true
}

// resolved takes a request off the screen. Whatever was being done about it ends:
// a confirmation or a text that was begun for it must not reach another.
func (m *model) resolved(e client.Event) {
	i := slices.IndexFunc(m.queue, func(it *item) bool { return it.ID == e.Approval.ID })
	if i < 0 {
		return
	}
	it := m.queue[i]
	if it.ID == m.current && it.sent { // its answer took the person on, and they came back to look
		m.nextOpen()
	}
	m.queue = slices.Delete(m.queue, i, i+1)
	m.notice = string(present.Outcome(&it.Approval, e.Decision))
	if present.Withdrawn(e.Decision) {
		seen := &it.Approval
		if it.shown != nil && it.args == nil {
			seen = it.shown
		}
		m.gone.Add(seen, it.shown != nil, m.now())
	}
	if m.confirm != nil && slices.Contains(m.confirm.ids(), it.ID) {
		m.confirm = nil
	}
	if it.ID != m.current || it.sent {
		return
	}
	m.tomb = &tombstone{item: it, ended: string(present.Ended(&e.Approval, e.Decision))}
	if len(m.queue) > 0 {
		m.tomb.after = m.queue[min(i, len(m.queue)-1)].ID
	}
	m.confirm, m.chooser, m.asking, m.denials, m.reader, m.help = nil, nil, nil, false, nil, false
	if m.board == nil {
		m.guard.Ended(m.at())
	}
}

// front is what stands in front of the person: a board, or a request that waits.
func (m *model) front() string {
	switch {
	case m.board != nil:
		return "board " + m.board.name
	case m.tomb != nil:
		return ""
	}
	return string(m.current)
}

// whoseText sees after each message that a text has not lost what it is about: whatever
// takes that away, the text goes, and with it all keys until the person lets go. before is
// the text that was open when the message came, and typed says that it was a key: those
// alone end a text as the person wants.
func (m *model) whoseText(before *editor, typed bool) {
	if m.edit != nil && m.edit.about != m.front() {
		m.edit = nil
	}
	if before != nil && m.edit != before && !typed {
		m.guard.TextGone(m.at())
	}
}

// goOn lets go of what holds the answers back.
func (m *model) goOn(act guard.Act, begun time.Duration) tea.Cmd {
	if !m.guard.Release(m.at(), begun, act) {
		m.typist.last = -1 // the terminal's answer may be lost: it is asked again, for the next press
		return nil
	}
	if m.err != nil {
		return tea.Quit
	}
	if m.tomb == nil || m.board != nil {
		m.notice = ""
		return nil
	}
	after := m.tomb.after
	m.tomb, m.notice = nil, ""
	if m.find(after) == nil && len(m.queue) > 0 {
		after = m.queue[0].ID
	}
	m.moveTo("")
	if m.find(after) != nil {
		m.moveTo(after)
	}
	return nil
}

// item is the request that is shown: the one under the cursor, or the one that was.
func (m *model) item() *item {
	if m.tomb != nil {
		return m.tomb.item
	}
	return m.cursor()
}

// moveTo puts the cursor on a request, at its beginning and with deny focused.
func (m *model) moveTo(id protocol.ApprovalID) {
	m.current, m.focus, m.scroll = id, 0, 0
	m.confirm, m.chooser, m.asking, m.denials, m.deep = nil, nil, nil, false, false
	if it := m.cursor(); it != nil {
		it.like = m.gone.Like(&it.Approval, m.now())
	}
}

func (m *model) move(by int) {
	i := slices.IndexFunc(m.queue, func(it *item) bool { return it.ID == m.current })
	if next := i + by; i >= 0 && next >= 0 && next < len(m.queue) {
		m.moveTo(m.queue[next].ID)
	}
}

// load asks for the presentation of the request under the cursor, once.
func (m *model) load() tea.Cmd {
	it := m.cursor()
	if it == nil || it.asked {
		return nil
	}
	it.asked = true
	id := it.ID
	return func() tea.Msg {
		one, err := m.opts.Approver.Show(m.ctx, id)
		if err != nil {
			return shownMsg{id: id, err: err}
		}
		return shownMsg{id: id, one: one, parts: coloured(m.ctx, &one)}
	}
}

func (m *model) shown(msg shownMsg) tea.Cmd {
	it := m.find(msg.id)
	if it == nil {
		return nil
	}
	var e *protocol.Error
	switch {
	case msg.err == nil:
		it.shown, it.parts = &msg.one, msg.parts
		it.like = cmp.Or(it.like, m.gone.Like(it.shown, m.now()))
	case errors.As(msg.err, &e): // most likely it is over, and its event is on the way
		it.shown, it.problem = &it.Approval, approval.EscapeLine(e.Error())
	default:
		return m.fail(msg.err)
	}
	return nil
}

// fail ends the screen: nothing can be answered any more. Who is writing a text ends it
// themselves, since the rest of their sentence would be a command of the shell below.
func (m *model) fail(err error) tea.Cmd {
	m.err = err
	if m.edit == nil && !m.guard.Writing() {
		return tea.Quit
	}
	m.edit = nil
	m.notice = "Esc leaves: " + approval.EscapeLine(err.Error())
	return nil
}

// look notes what is on the screen now, and since when.
func (m *model) look() {
	now := sight{}
	switch it := m.cursor(); {
	case m.board != nil:
		if m.fits() && m.wholeBoard() {
			now = m.board.sight()
		}
	case m.tomb != nil:
		now = sight{id: m.tomb.item.ID, panel: "ended"}
	case it != nil && it.shown != nil && !it.sent && m.asking == nil && !m.help && m.reader == nil && m.fits() && m.wholePanel():
		now = sight{it.ID, it.shown, m.confirm, m.panel()}
		visible := m.detailRows()
		if m.confirm != nil {
			visible -= len(m.question(m.confirm)) // it covers the rest
		}
		if m.chooser == nil && !m.denials {
			it.length = len(m.essence())
			it.reached = max(it.reached, m.scroll+visible)
		}
	}
	if now != m.sight {
		m.sight = now
		m.looks++
	}
	id, sight := string(now.id), strconv.Itoa(m.looks)
	if id == "" {
		sight = ""
	}
	m.guard.Look(m.at(), id, sight)
}

// panel is what else decides what a key means.
func (m *model) panel() string {
	switch {
	case m.chooser != nil:
		return fmt.Sprint("remember ", m.chooser.at, m.chooser.scope, m.chooser.deny, len(m.chooser.offers))
	case m.denials:
		return "denials"
	}
	return ""
}

// settled reports whether an act that began then is an answer to what is in sight.
func (m *model) settled(begun time.Duration) bool {
	if m.sight.id == "" || m.sight.id != m.current && m.board == nil {
		if why := m.held(); why != "" {
			m.notice = why
		}
		return false
	}
	if m.guard.Answer(m.at(), begun, false) {
		return true
	}
	m.notice = present.Words.TooSoon
	return false
}

// held says why nothing that is in front can be answered as it is.
func (m *model) held() string {
	switch {
	case m.asking != nil:
		return present.Words.EditPending
	case !m.fits() || m.board != nil && !m.wholeBoard() || m.board == nil && !m.wholePanel():
		return present.Words.NotWhole
	}
	return ""
}

// send answers, without waiting for the result.
func (m *model) send(a *answer) tea.Cmd {
	m.confirm, m.notice = nil, ""
	for _, id := range a.ids() {
		if it := m.find(id); it != nil {
			it.sent = true
		}
	}
	if it := m.cursor(); it != nil && it.sent {
		m.nextOpen()
	}
	m.denials = false
	decide, ids := a.decide, a.ids()
	return func() tea.Msg {
		results, err := m.opts.Approver.Decide(m.ctx, decide)
		return decidedMsg{ids, results, err}
	}
}

// nextOpen moves on to the next request that no answer is under way for.
func (m *model) nextOpen() {
	i := slices.IndexFunc(m.queue, func(it *item) bool { return it.ID == m.current })
	for n := range m.queue {
		if it := m.queue[(i+n)%len(m.queue)]; !it.sent {
			m.moveTo(it.ID)
			return
		}
	}
	m.moveTo("")
}

// decided says what went wrong with an answer; what went well is an event.
func (m *model) decided(msg decidedMsg) tea.Cmd {
	var e *protocol.Error
	if msg.err != nil && !errors.As(msg.err, &e) {
		return m.fail(msg.err)
	}
	failed := map[protocol.ApprovalID]*protocol.Error{}
	for _, id := range msg.ids {
		if e != nil {
			failed[id] = e
		}
	}
	for _, r := range msg.results {
		if r.Error != nil {
			failed[r.ID] = r.Error
		}
	}
	for id, e := range failed {
		if it := m.find(id); it != nil {
			it.sent = false
			if m.current == "" {
				m.moveTo(id)
			}
		}
		m.notice = approval.EscapeLine(e.Error())
	}
	return nil
}

// page shows the whole text of the request under the cursor in the pager.
func (m *model) page() tea.Cmd {
	it := m.cursor()
	if it == nil || it.shown == nil {
		return nil
	}
	if m.opts.Pager == "" {
		m.read(it)
		return nil
	}
	c := exec.CommandContext(m.ctx, "sh", "-c", m.opts.Pager)
	c.Stdin = strings.NewReader(strings.Join(m.fullText(it), "\n") + "\n")
	c.Env = append(slices.Clone(m.opts.Environ), "LESSSECURE=1") // it shows text, and is no shell
	id := it.ID
	m.away = true
	return tea.ExecProcess(c, func(err error) tea.Msg { return pagedMsg{id, err} })
}

// paged counts what the pager showed as seen. The screen is new to the eye.
func (m *model) paged(msg pagedMsg) {
	m.sight, m.away = sight{}, false
	m.othersRead()
	if msg.err != nil {
		m.notice = approval.EscapeLine(fmt.Sprintf("pager: %v", msg.err))
		return
	}
	if it := m.find(msg.id); it != nil {
		it.read = true
	}
}
