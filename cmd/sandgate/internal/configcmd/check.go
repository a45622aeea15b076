package configcmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools/shell"
)

// checkWhole makes of a configuration what a supervisor would be made of, and starts
// nothing. It reports everything that is wrong, and gives what tools see of the paths.
func checkWhole(cfg *config.Config) ([]protocol.PathView, error) {
	if err := together(checkExamples(cfg), assemble.CheckTools(cfg), checkProfiles(cfg), checkSecrets(cfg), checkHTTP(cfg)); err != nil {
		return nil, err
	}
	_, d, err := assemble.Tools(cfg, nil, assemble.Options{})
	if err == nil {
		_, err = assemble.MCPServers(cfg, d, nil)
	}
	if err != nil {
		return nil, err
	}
	operator, err := assemble.OperatorProfile(cfg)
	return assemble.PathViews(cfg, d, operator), err
}

// together is one error with the problems of all.
func together(errs ...error) error {
	var list []config.Problem
	for _, err := range errs {
		if bad := (*config.Error)(nil); errors.As(err, &bad) {
			list = append(list, bad.Problems...)
		} else if err != nil {
			return err
		}
	}
	return problemsError(list)
}

// problemsError is nil without problems.
func problemsError(list []config.Problem) error {
	if len(list) == 0 {
		return nil
	}
	return cli.UsageError(&config.Error{File: list[0].Position.File, Problems: list})
}

// checkProfiles loads the operator profiles, each by itself, so that the one that is
// wrong is named.
func checkProfiles(cfg *config.Config) error {
	var list []config.Problem
	for _, named := range cfg.OperatorProfiles() {
		if _, err := config.Operator(named.Name, assemble.ProfileVars(cfg, named)); err != nil {
			at := named.Position
			if at == (config.Position{}) {
				at = cfg.Origins["sandbox.profile"]
			}
			const hint = "see docs/profiles.md for the format; `sandgate profile show hardened --yaml` prints one to start from"
			own, wrong := errors.AsType[*config.Error](err)
			if !wrong {
				list = append(list, config.Problem{Position: at, Field: "sandbox.profile", Text: err.Error(), Hint: hint})
				continue
			}
			list = append(list, config.Problem{Position: at, Field: "sandbox.profile", Text: "the profile does not load", Hint: hint})
			list = append(list, own.Problems...)
		}
	}
	return problemsError(list)
}

// checkSecrets sees whether the files of secrets and credentials can be read, and hold
// something: a call would be refused for the lack of it.
func checkSecrets(cfg *config.Config) error {
	var list []config.Problem
	for _, s := range cfg.SecretFiles() {
		b, err := os.ReadFile(s.File)
		switch {
		case err != nil:
			list = append(list, config.Problem{Position: cfg.Origins[s.Field], Field: s.Field, Text: err.Error(), Hint: "make it readable for this user: the supervisor reads it"})
		case len(b) == 0:
			list = append(list, config.Problem{Position: cfg.Origins[s.Field], Field: s.Field, Text: s.File + " is empty", Hint: "put the secret into it"})
		}
	}
	return problemsError(list)
}

// checkHTTP looks for the directory of a token file that the configuration names; the
// default's is made.
func checkHTTP(cfg *config.Config) error {
	if cfg.HTTP.Listen == "" || cfg.HTTP.TokenFile == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(cfg.HTTP.TokenFile)); err != nil {
		const field = "http.token_file"
		return problemsError([]config.Problem{{Position: cfg.Origins[field], Field: field, Text: err.Error(), Hint: "make the directory"}})
	}
	return nil
}

// checkMachine builds one sandbox, as `serve` does at its start.
func checkMachine(cfg *config.Config) error {
	r := &assemble.Running{}
	defer r.Close()
	backend := assemble.StartBackend(r, cfg, assemble.Options{TryBackend: true})
	_, unconfined, err := assemble.RequireBackend(cfg, backend)
	if err == nil && unconfined != nil {
		cfg.Notices = append(cfg.Notices, config.Notice{Position: cfg.Origins["sandbox.os_sandbox_fallback"], Field: "sandbox.os_sandbox_fallback",
			Text: "this machine would refuse every tool: " + unconfined.Error()})
	}
	return err
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
		field := cmp.Or(r.Name, fmt.Sprintf("shell.rules[%d]", i))
		if caution := rule.Caution(); caution != "" {
			c.Notices = append(c.Notices, config.Notice{Position: r.Position, Field: field, Text: caution})
		}
		_, err := shell.NewPolicy(d, []shell.Rule{rule}, nil, nil)
		if bad := (*shell.RuleError)(nil); errors.As(err, &bad) {
			problems = append(problems, config.Problem{
				Position: r.Position, Field: field, Text: "the rule " + bad.Err.Error(),
			})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return cli.UsageError(&config.Error{File: problems[0].Position.File, Problems: problems})
}

// A configReport is the outcome of `config check`, as JSON.
type configReport struct {
	OK       bool             `json:"ok"`
	File     string           `json:"file"` // "" for the built-in default
	Tier     config.Tier      `json:"tier"`
	Digest   string           `json:"digest,omitempty"`
	Sources  []config.Source  `json:"sources"`
	Problems []config.Problem `json:"problems"`
	Notices  []config.Notice  `json:"notices"`
	Unused   []config.Notice  `json:"unused"` // of a file that is not trusted
	// Workdir and Paths are where programs start, and what tools see of each path.
	Workdir string              `json:"workdir,omitempty"`
	Paths   []protocol.PathView `json:"paths"`
}

func newConfigCheckCmd(a *cli.App) *cobra.Command {
	var file string
	var asJSON, noHost bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Load a configuration and report every problem",
		Long: `check loads all configuration files that apply, with FILE in place of your own, and builds
what ` + "`sandgate serve`" + ` would build from them: rules and their examples, tools, MCP servers
and their programs, operator profiles, credential files, the address of the web page, and
a sandbox, to see whether this machine can enforce it. It leaves nothing behind. Use
--no-host to skip the sandbox for a file that is meant for another machine.

Each problem is one line: FILE:LINE:COLUMN: FIELD: PROBLEM; HINT. Permissions that an
untrusted file would widen are warnings. The last lines list what tools see of each path.

Exit status: 0 if all is well, 120 if not, 122 if only this machine is the obstacle.`,
		Example: "  sandgate config check\n  sandgate config check sandgate.yaml --json\n  sandgate config check ci.yaml --no-host",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && file != "" {
				return cli.UsageError(errors.New("config check: give either FILE or --config, not both"))
			} else if len(args) == 1 {
				file = args[0]
			}
			c, found, err := assemble.Load(file, "")
			var views []protocol.PathView
			if err == nil {
				views, err = checkWhole(c)
			}
			if err == nil && !noHost {
				err = checkMachine(c)
			}
			if asJSON {
				return reportJSON(a, c, found, views, err)
			}
			return reportText(a, c, found, views, err)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`, the same as FILE")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&noHost, "no-host", false, "do not test what this machine can enforce")
	return c
}

func reportText(a *cli.App, c *config.Config, found config.Found, views []protocol.PathView, err error) error {
	if err != nil {
		return err
	}
	settings.PrintNotices(a, c)
	settings.WarnUnused(a, c, len(c.Unused))
	fmt.Fprintf(a.Out, "%s: ok\n", cmp.Or(found.Name, "built-in default"))
	for _, s := range c.Sources {
		if s.File != found.Path {
			fmt.Fprintf(a.Out, "%s\n", approval.EscapeLine(cli.Join(" ", s.File+": ok", cli.Paren(untrustedText(s)))))
		}
	}
	return printPathViews(a.Out, c.StartDir(), views)
}

// untrustedText says what becomes of a file; "" if all of it applies.
func untrustedText(s config.Source) string {
	if s.Trusted {
		return ""
	}
	return "not trusted: can only narrow permissions"
}

func reportJSON(a *cli.App, c *config.Config, found config.Found, views []protocol.PathView, err error) error {
	r := configReport{
		OK: err == nil, File: found.Path, Tier: found.Tier,
		Problems: []config.Problem{}, Notices: []config.Notice{}, Unused: []config.Notice{}, Sources: []config.Source{},
		Paths: append([]protocol.PathView{}, views...),
	}
	if c != nil {
		r.Workdir = c.StartDir()
		r.Digest = c.Digest
		r.Notices, r.Unused, r.Sources = append(r.Notices, c.Notices...), append(r.Unused, c.Unused...), append(r.Sources, c.Sources...)
	}
	if problems := (*config.Error)(nil); errors.As(err, &problems) {
		r.Problems = problems.Problems
	} else if err != nil {
		r.Problems = append(r.Problems, config.Problem{Position: config.Position{File: found.Path}, Text: err.Error()})
	}
	if writeErr := cli.PrintJSON(a.Out, r); writeErr != nil || err == nil {
		return writeErr
	}
	return cli.WithStatus(cli.ExitOf(err), nil)
}
