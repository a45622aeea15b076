package tui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

const (
	// silent is how long a terminal has for its first answer. One that has given none by
	// then never will: there keys began when they were read.
	silent = 3 * time.Second
	// lost is after how long an answer is waited for no more: another program has read it.
	lost = 5 * time.Second
)

// A typist knows when keys were typed. A terminal does not say: a key that is read now may
// have lain there since before its request stood for long enough, when the machine was busy,
// the program was stopped, or the network slow. But the terminal answers questions in the
// order of its keys. So it is asked for its attributes once a key would count, and what is
// read after its answer was typed after the question.
type typist struct {
	asked   []time.Duration // when the questions were asked that have no answer yet, oldest first
	last    time.Duration   // when the last one was
	since   time.Duration   // what is read from now on was typed after that
	answers bool            // this terminal does
	waiting bool            // for the time of the next question
}

// askNowMsg says that it may be time to ask.
type askNowMsg struct{}

// begun is the time after which an act began that has been read now.
func (m *model) begun() time.Duration {
	switch {
	case m.typist.answers:
		return m.typist.since
	case m.at() > silent:
		return m.at()
	}
	return -1
}

// askLater has the terminal asked as soon as an act would count, once.
func (m *model) askLater() tea.Cmd {
	t, due := &m.typist, m.guard.Due()
	if t.waiting || m.away || t.last >= due || !t.answers && m.at() > silent {
		return nil
	}
	t.waiting = true
	return m.after(max(due-m.at(), 0), func(time.Time) tea.Msg { return askNowMsg{} })
}

func (m *model) askNow() tea.Cmd {
	t, now := &m.typist, m.at()
	t.waiting = false
	if m.away || now < m.guard.Due() { // askLater comes again
		return nil
	}
	t.asked = append(slices.DeleteFunc(t.asked, func(at time.Duration) bool { return now-at > lost }), now)
	t.last = now
	return tea.Raw(ansi.RequestPrimaryDeviceAttributes)
}

func (m *model) terminalAnswers(uv.PrimaryDeviceAttributesEvent) {
	if t := &m.typist; len(t.asked) > 0 {
		t.since, t.asked, t.answers = t.asked[0], t.asked[1:], true
	}
}

// othersRead says that another program has had the terminal, and read what was on its way.
func (m *model) othersRead() {
	m.typist.asked, m.typist.last = nil, -1
}
