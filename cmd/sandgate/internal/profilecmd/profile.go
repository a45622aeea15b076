package profilecmd

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "profile",
		Short: "Show what sandboxes may reach and how that is enforced",
		Long: `An operator profile limits what tools may reach. A preset lists what one toolchain reads.
sandgate ships both under fixed names. An operator profile can also be a file (a name with
a slash or an extension). To start your own:
  sandgate profile show hardened --yaml --name mine > mine.yaml
docs/profiles.md explains it line by line.`,
		Example: "  sandgate profile list\n  sandgate profile show hardened\n  sandgate profile explain hardened\n  sandgate profile compile read-only --target bwrap",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newProfileListCmd(a), newProfileShowCmd(a), newProfileDeriveCmd(a), newProfileCompileCmd(a), newProfileExplainCmd(a), newProfileDiffCmd(a))
	return c
}

// shippedEntry is one line of `profile list`.
type shippedEntry struct {
	Kind   string `json:"kind"` // profile, preset, patterns
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func newProfileListCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the shipped profiles, presets and pattern lists",
		Example: "  sandgate profile list --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			entries, err := shippedEntries()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Out, entries)
			}
			w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\n", e.Kind, e.Name, e.Reason)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func shippedEntries() ([]shippedEntry, error) {
	var entries []shippedEntry
	for _, name := range profiles.OperatorNames() {
		reason, err := profiles.Reason(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, shippedEntry{"profile", name, reason})
	}
	for _, name := range profiles.PresetNames() {
		p, err := profiles.Preset(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, shippedEntry{"preset", name, p.Reason})
	}
	return append(entries,
		shippedEntry{"patterns", "protect", "Names that may be read but not written, at any depth."},
		shippedEntry{"patterns", "hide", "Names that may not be read, at any depth."}), nil
}

func newProfileShowCmd(a *cli.App) *cobra.Command {
	var asJSON, asYAML bool
	var roots []string
	var as string
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a profile, preset or pattern list with its reasons",
		Long: `show prints what a profile, preset or pattern list contains on this machine. With --yaml it
prints the file of a shipped operator profile, ready to load again. --name renames the copy;
save it under that name plus .yaml.`,
		Example: "  sandgate profile show hardened\n  sandgate profile show git\n  sandgate profile show protect\n  sandgate profile show hardened --yaml --name mine > mine.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if asYAML {
				return printSource(a.Out, args[0], cmp.Or(as, args[0]))
			}
			v, err := shippedByName(args[0], roots)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Out, v)
			}
			return printShipped(a.Out, v)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&asYAML, "yaml", false, "print the file of a shipped operator profile")
	c.Flags().StringVar(&as, "name", "", "with --yaml: name of the copy")
	c.MarkFlagsMutuallyExclusive("json", "yaml")
	addRootFlag(c, &roots)
	return c
}

func printSource(w io.Writer, name, as string) error {
	text, err := profiles.Source(name, as)
	if err != nil {
		return cli.WithStatus(cli.ExitUsage, err)
	}
	_, err = w.Write(text)
	return err
}

func addRootFlag(c *cobra.Command, roots *[]string) {
	c.Flags().StringArrayVar(roots, "path", nil, "NAME=DIR, the value of $NAME in a profile, also part of $* (default workspace=current directory)")
}

// shippedByName gives a sandboxprofile.Profile, a sandboxprofile.Preset or a
// []profiles.Pattern.
func shippedByName(name string, roots []string) (any, error) {
	switch name {
	case "protect":
		return profiles.ProtectPatterns(), nil
	case "hide":
		return profiles.HidePatterns(), nil
	}
	preset, err := profiles.Preset(name)
	if err == nil {
		return preset, nil
	}
	return operatorByName(name, roots)
}

func operatorByName(name string, roots []string) (sandboxprofile.Profile, error) {
	vars, err := rootVars(roots)
	if err != nil {
		return sandboxprofile.Profile{}, err
	}
	p, err := config.Operator(name, vars)
	if err != nil {
		return p, cli.WithStatus(cli.ExitUsage, err)
	}
	return p, nil
}

func rootVars(roots []string) (map[string]string, error) {
	if len(roots) == 0 {
		roots = []string{"workspace=."}
	}
	vars := make(map[string]string, len(roots))
	for _, r := range roots {
		name, dir, ok := strings.Cut(r, "=")
		if !ok || name == "" || dir == "" {
			return nil, cli.UsageError(fmt.Errorf("--path %q: want NAME=DIR", r))
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, cli.WithStatus(cli.ExitInternal, err)
		}
		vars[name] = abs
	}
	return vars, nil
}

func printShipped(w io.Writer, v any) error {
	switch v := v.(type) {
	case sandboxprofile.Preset:
		return printGrants(w, v)
	case []profiles.Pattern:
		return printPatterns(w, v)
	case sandboxprofile.Profile:
		return printProfile(w, v)
	}
	return fmt.Errorf("bug: nothing prints a %T", v)
}

func printGrants(out io.Writer, p sandboxprofile.Preset) error {
	fmt.Fprintf(out, "%s\n\n", p.Reason)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range p.Grants {
		fmt.Fprintf(w, "%s\t%s\t%s\n", rightsText(g.Rights), g.Path, g.Reason)
	}
	return w.Flush()
}

func printPatterns(out io.Writer, list []profiles.Pattern) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range list {
		fmt.Fprintf(w, "%s\t%s\n", p.Pattern, p.Reason)
	}
	return w.Flush()
}

// printProfile shows a profile a line for each part, then what makes it loose.
func printProfile(out io.Writer, p sandboxprofile.Profile) error {
	p = p.Normalize()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range p.Keys() {
		if r, ok := p.Paths[k]; ok {
			fmt.Fprintf(w, "path\t%s  %s\n", rightsText(r), k)
		}
	}
	for _, row := range []struct {
		part   string
		values []string
	}{
		{"scratch", p.Scratch}, {"protect", p.Protect}, {"hide", p.Hide},
		{"network", networkText(p.Network)},
		{"unix sockets", p.UnixSockets}, {"devices", p.Devices}, {"system calls lifted", p.Syscalls},
		{"environment", envText(p.Env)}, {"limits", limitsText(p.Limits)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row.part, listText(row.values))
	}
	fmt.Fprintf(w, "fresh sandbox for each call\t%v\n", p.Fresh)
	fmt.Fprintf(w, "digest\t%s\n", p.Digest())
	for _, s := range sandboxprofile.Warnings(p) {
		fmt.Fprintf(w, "warning\t%s\n", s)
	}
	return w.Flush()
}

func rightsText(r sandboxprofile.Rights) string {
	b, err := r.MarshalText()
	if err != nil {
		return r.String()
	}
	return string(b)
}

func listText(list []string) string {
	switch {
	case len(list) == 0:
		return "none"
	case len(list) == 1 && list[0] == sandboxprofile.All:
		return "any"
	}
	return strings.Join(list, ", ")
}

func networkText(n sandboxprofile.Network) []string {
	text := n.Mode.String()
	if n.Mode == sandboxprofile.NetworkProxied {
		lists := make([]string, len(n.Allow))
		for i, l := range n.Allow {
			lists[i] = strings.Join(l, ", ")
		}
		text += ": " + strings.Join(lists, "; and of these: ")
	}
	if len(n.Expose) == 0 {
		return []string{text}
	}
	return []string{text, "exposes " + listText(n.Expose)}
}

func envText(e sandboxprofile.Env) []string {
	if e.All {
		return []string{sandboxprofile.All}
	}
	return e.Names
}

func limitsText(l sandboxprofile.Limits) []string {
	var parts []string
	add := func(name, text string, value int64) {
		if value != sandboxprofile.Unlimited {
			parts = append(parts, name+" "+text)
		}
	}
	add("wall", l.Wall.String(), int64(l.Wall))
	add("cpu", l.CPU.String(), int64(l.CPU))
	for _, e := range []struct {
		name  string
		value int64
	}{
		{"memory", l.Memory}, {"pids", l.Pids}, {"file size", l.FileSize},
		{"open files", l.OpenFiles}, {"output", l.Output}, {"scratch", l.Scratch},
	} {
		add(e.name, fmt.Sprint(e.value), e.value)
	}
	return parts
}

func newProfileCompileCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	var target string
	var roots []string
	c := &cobra.Command{
		Use:   "compile NAME",
		Short: "Show what an operator profile compiles to on this host",
		Long: `compile prints what an operator profile alone becomes: bubblewrap's arguments, Landlock's
rules, the system call filter, or the sandbox-exec profile for macOS (sbpl). A call runs
under less: the intersection of this profile with what the tool needs.

The output for bubblewrap and Landlock leaves out files that match protect and hide
patterns, because they are found when a sandbox is built. In the macOS text, the proxy's
port and the scratch directories are examples: each sandbox has its own.`,
		Example: "  sandgate profile compile read-only --target bwrap\n  sandgate profile compile ./mine.yaml --target seccomp",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := operatorByName(args[0], roots)
			if err != nil {
				return err
			}
			return compileProfile(a.Out, p, target, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&target, "target", "bwrap", "bwrap, landlock, seccomp or sbpl")
	addRootFlag(c, &roots)
	return c
}

// compileProfile prints p compiled for one target. Whatever makes a profile can
// end here.
func compileProfile(out io.Writer, p sandboxprofile.Profile, target string, asJSON bool) error {
	facts, err := assemble.PathFacts(p)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	var lines []string
	var value any
	switch target {
	case "bwrap":
		lines, err = bwrap.Compile(p, facts)
		value = lines
	case "landlock":
		var rules []landlock.Rule
		rules, err = landlock.Compile(p, facts)
		for _, r := range rules {
			lines = append(lines, r.String())
		}
		value = rules
	case "seccomp":
		var text string
		text, err = seccomp.Listing(p.Syscalls)
		lines = []string{strings.TrimSuffix(text, "\n")}
		value = text
	case "sbpl":
		var text string
		text, err = sbpl.Compile(p, facts, exampleVars(p))
		lines = []string{strings.TrimSuffix(text, "\n")}
		value = text
	default:
		return cli.WithHint(cli.UsageError(fmt.Errorf("--target %q: unknown target", target)), "use bwrap, landlock, seccomp or sbpl")
	}
	switch {
	case err != nil:
		return cli.WithStatus(cli.ExitUnavailable, err)
	case asJSON:
		return cli.PrintJSON(out, value)
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// exampleVars stands in for what a launcher gives each sandbox.
func exampleVars(p sandboxprofile.Profile) sbpl.Vars {
	v := sbpl.Vars{Tag: "sandgate", ProxyPort: 18080, Scratch: map[string]string{}}
	for _, dir := range p.Scratch {
		v.Scratch[dir] = filepath.Join("/private/var/sandgate/example", dir)
	}
	return v
}
