package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/ui/guard"
)

// timeOfGuard is a time of the guard's clock.
type timeOfGuard = time.Duration

// A click is a button of the mouse that is down: where, and since when.
type click struct {
	key  string
	at   timeOfGuard
	down bool
}

// mouse scrolls, and presses the answers: a button counts where it was pressed and let go.
func (m *model) mouse(msg tea.MouseMsg) tea.Cmd {
	if m.help || m.reader != nil || m.away {
		return nil
	}
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		by := map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button]
		if m.board != nil {
			m.board.at = max(min(m.board.at+by/3, m.board.items()-1), 0)
		} else if m.tomb == nil {
			m.scrollBy(by)
		}
	case tea.MouseClickMsg:
		m.click = click{m.under(msg.X, msg.Y), m.begun(), msg.Button == tea.MouseLeft}
	case tea.MouseReleaseMsg:
		pressed := m.click
		m.click = click{}
		if pressed.down && m.guard.Held() {
			return m.goOn(guard.Click, pressed.at)
		}
		if pressed.down && pressed.key != "" && pressed.key == m.under(msg.X, msg.Y) {
			k := tea.KeyPressMsg{Code: []rune(pressed.key)[0], Text: pressed.key}
			return m.key(k, pressed.at)
		}
	}
	return nil
}

// under is the key of the answer at a place of the screen.
func (m *model) under(x, y int) string {
	if m.board != nil || m.cursor() == nil || m.tomb != nil || m.edit != nil || m.chooser != nil || m.denials || m.confirm != nil || y != m.height-footerRows {
		return ""
	}
	_, zones := m.zones()
	for _, z := range zones {
		if x >= z.from && x < z.to {
			return z.key
		}
	}
	return ""
}
