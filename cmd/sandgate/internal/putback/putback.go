package putback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// Undo has an undo carried out by this program in a sandbox of the workspace, as a call
// of its own: on the path of every call, under the profile of every program, with what it
// leaves looked at like what any call leaves.
func Undo(a *cli.App, settle func(*cli.App, []string), workspace, config string) changes.Perform {
	return Perform(a, settle, "sandgate undo", workspace, config, true)
}

// Perform works below a root: the workspace, or a directory that its calls may write, too.
func Perform(a *cli.App, settle func(*cli.App, []string), agent, workspace, config string, unrecorded bool) changes.Perform {
	return func(root string, order io.Reader) error {
		self, err := cli.ResolvedSelf()
		if err != nil {
			return err
		}
		var said bytes.Buffer
		inside := &cli.App{In: order, Out: io.Discard, Err: &said}
		var beside []string
		if !sandboxprofile.Contains(workspace, root) && unrecorded { // what a draft lies over, its calls may write
			beside = []string{root}
		}
		f := run.Flags{Config: config, Workspaces: []string{workspace, workspace}, Ro: []string{self}, Rw: beside, Mode: string(approval.ApproveAll), Network: "none", Backend: "auto", NoDetect: true, Unrecorded: unrecorded, Timeout: 10 * time.Minute}
		result, found, err := run.Once(context.Background(), inside, agent, f, true, []string{self, "put-back", root}, settle)
		if err != nil {
			return err
		}
		needs.PrintRefusals(a, result.Violations, found)
		if result.ExitCode != 0 {
			why := said.String()
			if _, failed, ok := strings.Cut(why, "sandgate: error: "); ok { // behind what is said of every start here
				why = failed
			}
			why = strings.TrimSpace(why)
			return errors.New("not everything could be restored: " + approval.EscapeLine(why))
		}
		if n := len(result.Violations); n > 0 {
			return fmt.Errorf("%s not restored: calls may not create that there", cli.Plural(n, "name was", "names were"))
		}
		return nil
	}
}
