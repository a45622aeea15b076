package sandboxinit

import (
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
)

// modes has programs that change files by themselves give set-group-id bits to
// directories, and to nothing else, and other users of the machine no right to write. Our own filter leaves such calls out, since we make
// them: each program has one of these two besides.
type modes struct {
	*broker.Modes
	notify *unix.SockFprog
	refuse *unix.SockFprog // where another supervisor's filter has a listener, or the kernel is too old
}

func newModes(m wire.Modes, scratch []string) (*modes, error) {
	if m.Free {
		return nil, nil
	}
	notify, err := filterProgram(m.Notify)
	if err != nil {
		return nil, err
	}
	refuse, err := filterProgram(m.Refuse)
	if err != nil {
		return nil, err
	}
	served, err := broker.NewModes(scratch)
	return &modes{served, notify, refuse}, err
}

func (m *modes) rest() {
	if m != nil {
		m.Rest()
	}
}

// listener is where programs' questions arrive, -1 without one.
func (w *worker) listener() int {
	if w.modes != nil {
		return w.modes.Listener()
	}
	return w.shared.listener()
}

// fault is a mistake in answering them, "" for none.
func (w *worker) fault() string {
	switch {
	case w.modes != nil:
		return w.modes.Fault()
	case w.shared != nil:
		return w.shared.broker.Fault()
	}
	return ""
}

func (w *worker) answer() {
	if w.modes != nil {
		w.modes.Answer()
		return
	}
	w.shared.broker.Answer()
}
