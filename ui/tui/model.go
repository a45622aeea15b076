package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// settle is how long a request must have been on the screen before a key counts
// as an answer to it: longer than a key that is already on its way, and than a
// finger that cannot be stopped any more; shorter than reading takes.
const settle = 500 * time.Millisecond

// A model is the whole state of the screen.
type model struct {
	ctx  context.Context
	opts Options
	now  func() time.Time

	width, height int
	queue         []*item // oldest first
	current       protocol.ApprovalID
	focus         int // index into choices; 0 denies
	scroll        int // first line of the detail on the screen
	help          bool
	reader        *reader
	confirm       *answer // waits for its key a second time
	edit          *editor
	chooser       *chooser
	away          bool // the pager or the editor has the terminal, or is about to
	orphan        bool // the request that a text was written for is gone; keys are still on their way

	sight sight
	since time.Time // when sight became what it is

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
	read    bool               // the full text has been in the pager
	problem string             // why there is no presentation
	// After an edit: what the agent had asked for, the arguments in its place, and
	// the text to go on editing from. shown is the edited request then.
	original *protocol.Approval
	args     json.RawMessage
	draft    string
}

// A sight is what an answer key would refer to. When it changes, the moment in
// which keys do not count begins.
type sight struct {
	id      protocol.ApprovalID
	shown   *protocol.Approval
	confirm *answer
}

func newModel(ctx context.Context, o Options, now func() time.Time) *model {
	return &model{ctx: ctx, opts: o, now: now, since: now()}
}

type (
	eventsMsg  []client.Event
	closedMsg  struct{}
	tickMsg    struct{}
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
func (m *model) Init() tea.Cmd { return tea.Batch(m.nextEvents(), tick()) }

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
	cmd := m.update(msg)
	load := m.load()
	m.look()
	return m, tea.Batch(cmd, load)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		for _, it := range m.queue {
			it.reached = 0 // lines are not what they were
		}
		m.reader = nil
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	case tea.ResumeMsg:
		m.sight = sight{}
	case eventsMsg:
		return tea.Batch(m.events(msg), m.nextEvents())
	case closedMsg:
		m.err = client.ErrClosed
		return tea.Quit
	case tickMsg:
		return tick()
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
	m.queue = append(m.queue, &item{Approval: a})
	if m.current == "" {
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
	m.queue = slices.Delete(m.queue, i, i+1)
	m.notice = present.Outcome(&it.Approval, e.Decision)
	if m.confirm != nil && slices.Contains(m.confirm.ids(), it.ID) {
		m.confirm = nil
	}
	if it.ID != m.current {
		return
	}
	m.orphan = m.edit != nil
	m.moveTo("")
	if len(m.queue) > 0 {
		m.moveTo(m.queue[min(i, len(m.queue)-1)].ID)
	}
}

// moveTo puts the cursor on a request, at its beginning and with deny focused.
func (m *model) moveTo(id protocol.ApprovalID) {
	m.current, m.focus, m.scroll = id, 0, 0
	m.confirm, m.edit, m.chooser = nil, nil, nil
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
	case errors.As(msg.err, &e): // most likely it is over, and its event is on the way
		it.shown, it.problem = &it.Approval, approval.EscapeLine(e.Error())
	default:
		return m.fail(msg.err)
	}
	return nil
}

func (m *model) fail(err error) tea.Cmd {
	m.err = err
	return tea.Quit
}

// look notes what is on the screen now, and since when.
func (m *model) look() {
	now := sight{}
	if it := m.cursor(); it != nil && it.shown != nil && !m.help && m.reader == nil && m.chooser == nil && !m.orphan && m.fits() {
		now = sight{it.ID, it.shown, m.confirm}
		visible := m.detailRows()
		if m.confirm != nil {
			visible -= len(m.question(m.confirm)) // it covers the rest
		}
		it.reached = max(it.reached, m.scroll+visible)
	}
	if now != m.sight {
		m.sight, m.since = now, m.now()
	}
}

// settled reports whether a key can be an answer to what is in sight. One that
// comes too soon starts the moment anew, so that a row of them never gets through.
func (m *model) settled() bool {
	if m.sight.id == "" || m.sight.id != m.current {
		return false
	}
	if m.now().Sub(m.since) < settle {
		m.since = m.now()
		m.notice = "that key came as soon as the request; read it, then press again"
		return false
	}
	return true
}

// send answers, without waiting for the result.
func (m *model) send(a *answer) tea.Cmd {
	m.confirm, m.edit, m.notice = nil, nil, ""
	for _, id := range a.ids() {
		if it := m.find(id); it != nil {
			it.sent = true
		}
	}
	if it := m.cursor(); it != nil && it.sent {
		m.nextOpen()
	}
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
	if msg.err != nil {
		m.notice = approval.EscapeLine(fmt.Sprintf("pager: %v", msg.err))
		return
	}
	if it := m.find(msg.id); it != nil {
		it.read = true
	}
}
