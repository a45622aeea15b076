package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// Edited arguments are checked by the supervisor, and what they make of the request
// is shown in its place, before a key can allow it.

type (
	// editedMsg is what an editor left of the arguments.
	editedMsg struct {
		id   protocol.ApprovalID
		text string
		err  error
	}
	// previewedMsg is what the supervisor makes of arguments or of a pattern.
	previewedMsg struct {
		to     *question
		result protocol.ApprovalsPreviewed
		parts  [][]highlight.Part
		err    error
	}
)

// editArguments opens the arguments of the request under the cursor: in the editor
// of the person, else in one line on the screen.
func (m *model) editArguments() tea.Cmd {
	it := m.cursor()
	if it == nil || it.shown == nil || it.sent || m.asking != nil {
		return nil
	}
	if len(it.shown.Args) == 0 {
		m.notice = present.Words.NotEditable
		return nil
	}
	text := it.draft
	if text == "" {
		text = editable(it.shown.Args, m.opts.Editor != "")
	}
	id := it.ID
	if m.opts.Editor == "" {
		m.write(present.Words.Arguments, text, len(text)+64<<10,
			func(text string) tea.Cmd { return m.edited(editedMsg{id: id, text: text}) })
		return nil
	}
	return m.runEditor(id, text)
}

// runEditor has the person's own editor work on a file that nobody else can read.
func (m *model) runEditor(id protocol.ApprovalID, text string) tea.Cmd {
	dir, err := os.MkdirTemp("", "sandgate-edit-")
	if err != nil {
		return func() tea.Msg { return editedMsg{id: id, err: err} }
	}
	file := filepath.Join(dir, "arguments.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		os.RemoveAll(dir)
		return func() tea.Msg { return editedMsg{id: id, err: err} }
	}
	c := exec.CommandContext(m.ctx, "sh", "-c", m.opts.Editor+` "$1"`, "sh", file)
	c.Env = m.opts.Environ
	m.away = true
	return tea.ExecProcess(c, func(err error) tea.Msg {
		defer os.RemoveAll(dir)
		if err != nil {
			return editedMsg{id: id, err: err}
		}
		text, err := os.ReadFile(file)
		return editedMsg{id: id, text: string(text), err: err}
	})
}

// editorCommands are what an editor would take for an order in the text that it
// opens: modelines of vi, file variables of Emacs.
var editorCommands = `(?i)\b(vim?|ex)[<=>0-9]*:|-\*-|local variables:`

// editable is present.Editable for an editor, which finds no orders in it.
func editable(args json.RawMessage, indent bool) string {
	return regexp.MustCompile(editorCommands).ReplaceAllStringFunc(present.Editable(args, indent), func(order string) string {
		last := order[len(order)-1]
		return order[:len(order)-1] + fmt.Sprintf(`\u%04x`, last)
	})
}

// edited asks the supervisor what becomes of the arguments.
func (m *model) edited(msg editedMsg) tea.Cmd {
	m.sight, m.away = sight{}, false
	m.othersRead()
	it := m.find(msg.id)
	if it == nil {
		m.notice = "the request whose arguments you edited has ended"
		return nil
	}
	if msg.err != nil {
		m.notice = approval.EscapeLine(fmt.Sprintf("editor: %v", msg.err))
		return nil
	}
	var args bytes.Buffer
	if err := json.Compact(&args, []byte(msg.text)); err != nil {
		it.draft = msg.text
		m.notice = approval.EscapeLine(fmt.Sprintf("not JSON: %v; press e to continue editing", err))
		return nil
	}
	if present.SameJSON(args.Bytes(), it.shown.Args) {
		m.notice = "the arguments are unchanged"
		return nil
	}
	it.draft = msg.text
	return m.preview(protocol.ApprovalsPreview{ID: it.ID, Args: args.Bytes()})
}

// A question is about an edit. Until it is answered nothing else is: what is in front is
// the old thing, and a person who has edited it means the new one.
type question struct{ protocol.ApprovalsPreview }

// preview asks what arguments or a pattern would come to.
func (m *model) preview(ask protocol.ApprovalsPreview) tea.Cmd {
	if m.current != ask.ID || m.front() != string(ask.ID) {
		m.notice = "you moved to another request: nothing was edited"
		return nil
	}
	q := &question{ask}
	m.asking = q
	return func() tea.Msg {
		result, err := m.opts.Approver.Preview(m.ctx, ask)
		msg := previewedMsg{to: q, result: result, err: err}
		if err == nil {
			msg.parts = coloured(m.ctx, &result.Approval)
		}
		return msg
	}
}

func (m *model) previewed(msg previewedMsg) tea.Cmd {
	var e *protocol.Error
	if msg.err != nil && !errors.As(msg.err, &e) {
		return m.fail(msg.err)
	}
	if msg.to != m.asking {
		return nil // the person, or the end of the request, has left it
	}
	m.asking = nil
	it := m.cursor()
	switch {
	case msg.err != nil:
		m.notice = approval.EscapeLine(e.Error())
	case msg.to.Pattern != nil:
		m.offered(msg.result.Pattern)
	default:
		it.revise(msg)
		m.moveTo(it.ID) // at its beginning, with deny focused
		m.notice = ""
	}
	return nil
}

// revise puts what the edited arguments make of the request in its place.
func (it *item) revise(msg previewedMsg) {
	if it.original == nil {
		it.original = it.shown
	}
	it.shown, it.args, it.parts = &msg.result.Approval, msg.to.Args, msg.parts
	it.reached, it.read = 0, false
}

// restore brings the agent's own arguments back.
func (m *model) restore(it *item) tea.Cmd {
	shown := it.original
	it.shown, it.original, it.args, it.draft, it.parts = shown, nil, nil, "", nil
	it.reached, it.read = 0, false
	m.moveTo(it.ID)
	m.notice = present.Words.Restored
	id := it.ID
	return func() tea.Msg { return colouredMsg{id, shown, coloured(m.ctx, shown)} }
}

// colouredMsg brings the colours of a request that is on the screen already.
type colouredMsg struct {
	id    protocol.ApprovalID
	shown *protocol.Approval
	parts [][]highlight.Part
}

// coloured finds out what to colour in a content. Here it may take its time: the
// screen goes on.
func coloured(ctx context.Context, a *protocol.Approval) [][]highlight.Part {
	if a.Presentation == nil || a.Presentation.Type == approval.Diff {
		return nil
	}
	text, _ := present.Content(a)
	return marked(text, highlight.Lines(ctx, present.Language(a, text), text), present.Risks(a))
}

// risk is the kind of a piece that a person should look at.
const risk highlight.Kind = 1 << 7

// marked splits the parts of a text's lines where a risk begins or ends.
func marked(text string, parts [][]highlight.Part, risks []present.Risk) [][]highlight.Part {
	offset := 0
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		for _, r := range risks {
			from, to := max(r.Start-offset, 0), min(r.End-offset, len(line))
			if from >= to {
				continue
			}
			for len(parts) <= i {
				parts = append(parts, nil)
			}
			parts[i] = []highlight.Part{{Text: line[:from]}, {Text: line[from:to], Kind: risk}, {Text: line[to:]}}
		}
		offset += len(line) + 1
	}
	return parts
}
