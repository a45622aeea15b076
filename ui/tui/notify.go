package tui

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Notify says how a person is called to the screen when a request comes. What is
// sent holds nothing from outside: a terminal or a desktop may read markup in it.
type Notify struct {
	Bell bool
	// OSC9 has the terminal show a notification (iTerm2, WezTerm, kitty, Ghostty,
	// Windows Terminal); others ignore it.
	OSC9 bool
	// Command is a program and its arguments, which a sentence is added to, such as
	// notify-send. It is nil for none.
	Command []string
}

// notifyEvery keeps a flood of requests from ringing all the time.
const notifyEvery = 2 * time.Second

// notify calls the person, unless it has just done so.
func (m *model) notify() tea.Cmd {
	if m.now().Sub(m.notified) < notifyEvery {
		return nil
	}
	m.notified = m.now()
	n := m.opts.Notify
	sentence := "sandgate: " + m.waiting()
	var raw strings.Builder
	if n.Bell {
		raw.WriteString("\a")
	}
	if n.OSC9 {
		raw.WriteString(ansi.Notify(sentence))
	}
	var cmds []tea.Cmd
	if raw.Len() > 0 {
		cmds = append(cmds, tea.Raw(raw.String()))
	}
	if len(n.Command) > 0 {
		cmds = append(cmds, m.runNotifier(sentence))
	}
	return tea.Batch(cmds...)
}

// runNotifier starts the program beside the screen, which does not wait for it.
func (m *model) runNotifier(sentence string) tea.Cmd {
	c := exec.CommandContext(m.ctx, m.opts.Notify.Command[0], append(m.opts.Notify.Command[1:len(m.opts.Notify.Command):len(m.opts.Notify.Command)], sentence)...)
	return func() tea.Msg {
		if err := c.Run(); err != nil {
			return notifiedMsg{fmt.Errorf("notify with %s: %w", m.opts.Notify.Command[0], err)}
		}
		return nil
	}
}

// notifiedMsg says that the program could not notify.
type notifiedMsg struct{ err error }
