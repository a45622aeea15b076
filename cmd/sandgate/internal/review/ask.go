package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/supervisor/changes"
)

const draftQuestion = "[k]eep it, [d]rop it, [v]iew it as a diff (default: it stays a draft): "

// askAboutDraft asks the person who ran a command about the draft that was just listed, under the rule of all answers.
// The program of a moment ago has left keys and may have drawn on the screen: what was typed before the question stood is
// dropped, what comes in several lines at once was pasted, and without an answer the draft stays. Kept is exactly what
// was listed.
func askAboutDraft(a *cli.App, tty *os.File, d *changes.Draft, cfg *config.Config, f run.Flags, plans []changes.DraftPlan, listed string) error {
	ctx, end := terminal.UntilSignal(context.Background(), nil, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	defer context.AfterFunc(ctx, func() { tty.Close() })() // it ends the read
	p := terminal.NewPrompter()
	unseen, told := terminal.Scrolled(tty, listed), false
	for round := 0; ; round++ {
		p.Guard.Look(p.Now(), d.ID, strconv.Itoa(round))
		answer, err := p.Read(ctx, tty, draftQuestion)
		var by terminal.Signalled
		if errors.As(context.Cause(ctx), &by) {
			fmt.Fprintln(a.Err)
			tellStays(a, d)
			return &cli.StatusError{Code: 128 + int(by.Signal)}
		}
		counts := err == nil && p.Guard.Answer(p.Now(), p.Now(), false)
		switch {
		case answer == "v" || answer == "view":
			var b bytes.Buffer
			for i, plan := range plans {
				printDraft(&b, d.Roots[i], plan, cfg, true)
			}
			fmt.Fprint(terminal.Fitted{Writer: tty}, b.String())
			unseen = terminal.Scrolled(tty, b.String())
		case (answer == "k" || answer == "keep") && counts:
			if unseen > 0 {
				fmt.Fprintf(tty, "%d lines have scrolled off the screen; see all with `sandgate review show`, or repeat the answer to keep everything\n", unseen)
				unseen = 0
				continue
			}
			if what := unshownOf(plans); what != "" && !told {
				fmt.Fprintf(terminal.Fitted{Writer: tty}, "no screen can show %s; repeat the answer to keep it unread\n", what)
				told = true
				continue
			}
			var shown [][]changes.Step
			for _, plan := range plans {
				shown = append(shown, plan.Steps)
			}
			return keepListed(a, d, f, shown)
		case (answer == "d" || answer == "drop") && counts:
			if err := draft.Drop(d); err != nil {
				return err
			}
			fmt.Fprintln(a.Err, "sandgate: dropped; the workspace is unchanged")
			return nil
		default:
			tellStays(a, d)
			return nil
		}
	}
}

func tellStays(a *cli.App, d *changes.Draft) {
	fmt.Fprintf(a.Err, "sandgate: draft %s stays; the workspace has not changed: use `sandgate review show`, keep or drop\n", d.ID)
}

// keepListed keeps what a person has seen of a draft. The list is on the screen.
func keepListed(a *cli.App, d *changes.Draft, f run.Flags, shown [][]changes.Step) error {
	quiet := *a
	quiet.Out = io.Discard
	x := &reviewCmd{App: &quiet, config: f.Config}
	cfg, err := x.configOf(d)
	if err != nil {
		return err
	}
	n, err := x.keepOf(d, cfg, nil, shown)
	if err != nil {
		tellStays(a, d)
		return err
	}
	fmt.Fprintf(a.Err, "sandgate: kept %s\n", cli.Plural(n, "name", "names"))
	return draft.Drop(d)
}

// maxLooked is how many names are looked at before a draft is kept.
const maxLooked = 500

// unshownOf is the part of a draft that no screen shows, however much was read; "" if
// there is none.
func unshownOf(plans []changes.DraftPlan) string {
	looked := 0
	for _, p := range plans {
		for _, s := range p.Steps {
			if looked++; looked > maxLooked {
				return fmt.Sprintf("the content of more than %d names", maxLooked)
			}
			if _, whole := changedLines(p.Content, s); !whole {
				return "all that " + approval.EscapeName(pathOf(s)) + " holds"
			}
		}
	}
	return ""
}

// personAt is the terminal to ask on about something that was written to out. It is nil if out is not a
// terminal or there is none: then nobody has seen what the question is about.
func personAt(out io.Writer) *os.File {
	if !cli.IsTerminal(out) {
		return nil
	}
	tty, err := terminal.NewPrompter().Open()
	if err != nil {
		return nil
	}
	return tty
}

// listDraft lists what a draft would change, in lines.
func listDraft(d *changes.Draft, plans []changes.DraftPlan, cfg *config.Config) (text string, names int) {
	var b bytes.Buffer
	for i, p := range plans {
		names += len(p.Steps)
		printDraft(&b, d.Roots[i], p, cfg, false)
	}
	return b.String(), names
}
