package settings

import (
	"errors"
	"fmt"
	"os"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/tools"
)

// Load reads the configuration that applies in a workspace, with file in place of the user's.
func Load(file, workspace string) (*config.Config, error) {
	c, _, err := assemble.Load(file, workspace)
	return c, err
}

// LoadAndWarn is Load, and says what has no effect.
func LoadAndWarn(a *cli.App, file, workspace string) (*config.Config, error) {
	c, err := Load(file, workspace)
	if err == nil {
		WarnUnused(a, c, maxWarned)
	}
	return c, err
}

// maxWarned is how much of a file without effect a command speaks of that is about
// something else.
const maxWarned = 3

// WarnUnused says which values of a file that is not trusted have no effect.
func WarnUnused(a *cli.App, c *config.Config, most int) {
	for i, n := range c.Unused {
		if i == most {
			fmt.Fprintf(a.Err, "sandgate: warning: and %d more; see all with `sandgate config show`\n", len(c.Unused)-most)
			break
		}
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", assemble.UnusedText(n))
	}
	if len(c.Unused) > 0 {
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", trustHint(c.Unused[0].Position.File))
	}
}

func trustHint(file string) string {
	return approval.EscapeLine("read the file; `sandgate config trust " + tools.QuoteCommand([]string{file}) + "` has it apply")
}

// PrintNotices passes on what files said that loads, and means something else by now.
func PrintNotices(a *cli.App, c *config.Config) {
	for _, n := range c.Notices {
		fmt.Fprintf(a.Err, "sandgate: notice: %s\n", n)
	}
}

// CreateFile writes a file that must not be there yet; a link counts as there.
func CreateFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
