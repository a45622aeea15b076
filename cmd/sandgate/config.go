package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/config"
	"github.com/sandgate/sandgate/tools/shell"
)

func newConfigCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check, create and explain configuration files",
		Long: `A configuration is one file: the one named with --config, else
$XDG_CONFIG_HOME/sandgate/sandgate.yaml, else /etc/sandgate/sandgate.yaml (which
must be root's), else the built-in default. A sandgate.yaml in the workspace is
not loaded unless it is named: whoever can write there could decide what is allowed.`,
		Example: "  sandgate config init\n  sandgate config check sandgate.yaml",
		Args:    cobra.NoArgs, // or else a misspelt subcommand would print the help and succeed
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigCheckCmd(a), newConfigInitCmd(a), newConfigSchemaCmd(a), newConfigShowCmd(a))
	return c
}

// configEnv is what the meaning of a configuration depends on, for this process.
func configEnv() (config.Env, error) {
	env, err := config.HostEnv()
	if err != nil {
		return env, withStatus(exitInternal, err)
	}
	env.CheckPattern, env.CheckHost = checkPattern, checkHost
	env.Presets, env.Profiles = profiles.PresetNames(), profiles.OperatorNames()
	env.ReservedTools = reservedTools()
	return env, nil
}

// checkPattern is sandboxprofile.ParsePattern without the pattern in its error:
// the configuration's own message names it.
func checkPattern(pattern string) error {
	err := sandboxprofile.ParsePattern(pattern)
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// resolveConfig loads the configuration that applies if file is named with
// --config; "" searches.
func resolveConfig(file string) (*config.Config, config.Found, error) {
	env, err := configEnv()
	if err != nil {
		return nil, config.Found{}, err
	}
	env.File = file
	c, found, err := config.Resolve(env)
	if err != nil {
		return nil, found, usageError(err)
	}
	return c, found, nil
}

// checkExamples holds every shell rule against its own match and no_match
// examples, which takes the shell's parser, and reports each that fails.
func checkExamples(c *config.Config) error {
	var problems []config.Problem
	d := shell.Default{Allowed: c.Shell.Default.Allowed, Approval: c.Shell.Default.Approval}
	for i, r := range c.Shell.Rules {
		rule := shell.Rule{
			Pattern: r.Pattern, Exact: r.Exact, ReadOnly: r.ReadOnly, Allowed: &r.Allowed, Approval: &r.Approval,
			SandboxPaths: r.SandboxPaths, Match: r.Match, NoMatch: r.NoMatch,
		}
		_, err := shell.NewPolicy(d, []shell.Rule{rule}, nil, nil)
		if bad := (*shell.RuleError)(nil); errors.As(err, &bad) {
			problems = append(problems, config.Problem{
				Position: r.Position, Field: fmt.Sprintf("shell.rules[%d]", i), Text: "the rule " + bad.Err.Error(),
			})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return usageError(&config.Error{File: problems[0].Position.File, Problems: problems})
}

// A configReport is the outcome of `config check`, as JSON.
type configReport struct {
	OK       bool             `json:"ok"`
	File     string           `json:"file"` // "" for the built-in default
	Tier     config.Tier      `json:"tier"`
	Digest   string           `json:"digest,omitempty"`
	Problems []config.Problem `json:"problems"`
	Notices  []config.Notice  `json:"notices"`
}

func newConfigCheckCmd(a *app) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Load a configuration and report everything that is wrong with it",
		Long: `check loads FILE, or the configuration that applies if none is named. Each problem is
one line, FILE:LINE:COLUMN: FIELD: PROBLEM; HINT, and the exit status is 120.`,
		Example: "  sandgate config check\n  sandgate config check sandgate.yaml --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && file != "" {
				return usageError(errors.New("config check: one file at a time: FILE or --config"))
			} else if len(args) == 1 {
				file = args[0]
			}
			c, found, err := resolveConfig(file)
			if err == nil {
				err = errors.Join(checkExamples(c), checkTools(c))
			}
			if asJSON {
				return a.reportJSON(c, found, err)
			}
			return a.reportText(c, found, err)
		},
	}
	c.Flags().StringVar(&file, "config", "", "the same as FILE, which is a configuration `file`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) reportText(c *config.Config, found config.Found, err error) error {
	if err != nil {
		return err
	}
	a.notices(c)
	_, err = fmt.Fprintf(a.out, "%s: ok\n", cmp.Or(found.Name, "built-in default"))
	return err
}

func (a *app) reportJSON(c *config.Config, found config.Found, err error) error {
	r := configReport{
		OK: err == nil, File: found.Path, Tier: found.Tier,
		Problems: []config.Problem{}, Notices: found.Notices,
	}
	if c != nil {
		r.Notices, r.Digest = c.Notices, c.Digest
	}
	if r.Notices == nil {
		r.Notices = []config.Notice{}
	}
	if problems := (*config.Error)(nil); errors.As(err, &problems) {
		r.Problems = problems.Problems
	} else if err != nil {
		r.Problems = append(r.Problems, config.Problem{Position: config.Position{File: found.Path}, Text: err.Error()})
	}
	if writeErr := a.writeJSON(r); writeErr != nil || err == nil {
		return writeErr
	}
	return withStatus(exitUsage, nil)
}

// writeJSON prints v indented: it is for people too.
func (a *app) writeJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *app) notices(c *config.Config) {
	for _, n := range c.Notices {
		fmt.Fprintf(a.err, "sandgate: notice: %s\n", n)
	}
}

func newConfigInitCmd(a *app) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a commented configuration to begin with",
		Long: `init writes sandgate.yaml into DIR, or the current directory, with DIR as the
workspace. It is loaded where it is named with --config.`,
		Example: "  sandgate config init\n  sandgate config init ~/work/project --force",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initConfig(filepath.Join(dir, config.FileName), force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite a file that is there")
	return c
}

func (a *app) initConfig(path string, force bool) error {
	text := config.Init("")
	if force {
		if err := atomicfile.WriteFile(path, text, 0o600); err != nil {
			return usageError(fmt.Errorf("config init: %w", err))
		}
	} else if err := createFile(path, text); errors.Is(err, fs.ErrExist) {
		return withHint(usageError(fmt.Errorf("config init: %w", err)), "--force overwrites it")
	} else if err != nil {
		return usageError(fmt.Errorf("config init: %w", err))
	}
	_, err := fmt.Fprintf(a.out, "wrote %s\nuse it: sandgate serve --config %s\n", path, path)
	return err
}

// createFile writes a file that must not be there yet; a link counts as there.
func createFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func newConfigSchemaCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files, for editors",
		Long: `schema prints the JSON Schema (draft 2020-12) of sandgate.yaml. Editors with a YAML
language server complete and check keys with it; put this line on top of the file:
  # yaml-language-server: $schema=./sandgate.schema.json`,
		Example: "  sandgate config schema > sandgate.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(config.Schema())
			return err
		},
	}
}

// A configShown is what applies, as JSON.
type configShown struct {
	File    string            `json:"file"`
	Tier    config.Tier       `json:"tier"`
	Digest  string            `json:"digest,omitempty"`
	Config  map[string]any    `json:"config"`
	Origins map[string]string `json:"origins"` // by field: a position, or "default"
	Notices []config.Notice   `json:"notices,omitempty"`
}

func newConfigShowCmd(a *app) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print what applies, with every default and where each value comes from",
		Example: "  sandgate config show\n  sandgate config show --config sandgate.yaml --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, found, err := resolveConfig(file)
			if err != nil {
				return err
			}
			if asJSON {
				return a.showJSON(c, found)
			}
			a.notices(c)
			text, err := c.Explain()
			if err != nil {
				return withStatus(exitInternal, err)
			}
			_, err = a.out.Write(text)
			return err
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) showJSON(c *config.Config, found config.Found) error {
	plain, err := c.Plain()
	if err != nil {
		return withStatus(exitInternal, err)
	}
	s := configShown{
		File: found.Path, Tier: found.Tier, Digest: c.Digest, Config: plain,
		Origins: map[string]string{}, Notices: c.Notices,
	}
	c.Fields(func(field, origin string) { s.Origins[field] = origin })
	return a.writeJSON(s)
}
