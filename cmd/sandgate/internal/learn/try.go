package learn

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/fragment"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/tools"
)

// NewTryCommand is one try of `learn`, in its draft.
func NewTryCommand(a *cli.App) *cobra.Command {
	var f run.Flags
	var files string
	c := &cobra.Command{
		Use: "learn-try --files DIRECTORY -- COMMAND [ARG...]", Short: "Carry out one try of `sandgate learn`", Args: cobra.MinimumNArgs(1), Hidden: true,
		Example: "  sandgate learn-try --files /tmp/try -- true",
		RunE:    func(c *cobra.Command, argv []string) error { return learnTry(a, c, f, files, argv) },
	}
	fs := c.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&files, "files", "", "the `directory` of the fragment and the outcome")
	fs.StringVar(&f.Config, "config", "", "configuration `file`")
	fs.StringVar(&f.DraftOf, "draft-of", "", "work on the draft in this `directory`")
	fs.StringArrayVar(&f.Workspaces, "workspace", nil, "writable `directory`")
	fs.StringVar(&f.Backend, "backend", "auto", assemble.BackendUsage)
	fs.DurationVar(&f.Timeout, "timeout", 0, "kill everything after this `time`")
	return c
}

func learnTry(a *cli.App, c *cobra.Command, f run.Flags, files string, argv []string) error {
	f.Mode, f.Unrecorded = string(approval.ApproveAll), true
	ctx, over := c.Context(), &changes.Draft{}
	if f.DraftOf != "" {
		var err error
		if over, ctx, err = draft.Take(ctx, f.DraftOf); err != nil {
			return err
		}
	}
	cfg, err := run.LoadConfig(a, f)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(files, fragmentFile))
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	part, err := parseFragment(fragmentFile, text)
	if err != nil {
		return err
	}
	fragment.Overlay(cfg, part)
	if cfg.Shell.Network.Mode == config.NetworkNone {
		// With a list of no hosts each that is asked for is refused by its name.
		cfg.Shell.Network = config.Network{Mode: config.NetworkAllow}
	}
	if err := run.KeepFloor(cfg); err != nil {
		return err
	}
	var out printed
	var reached connections
	f.Connected = reached.add
	result, d, err := run.Under(ctx, cli.New(strings.NewReader(""), &out, io.Discard, a.Version), cfg, "sandgate learn", f, false, argv)
	if err != nil {
		return err
	}
	t := tried{Status: result.ExitCode, Output: out.digest(over), Refused: []refusal{}, Toolchains: toolchainPresets(d), Env: presentNames(d.Passed), Connections: reached.list}
	cwd, err := os.Getwd()
	if err == nil {
		t.Program, _ = tools.LookPath(argv[0], d.Path, over.Place(cwd), sandboxprofile.NewLookup(d.Programs).Runnable)
		t.Program = over.Of(t.Program)
	}
	t.Said = lastLines(d.Said, 5)
	for _, n := range needs.Namesakes(d.Path, d.Programs, argv[0]) {
		t.Namesakes = append(t.Namesakes, n.Name+" is "+n.Inside+" and not "+n.Outside)
	}
	for _, v := range result.Violations {
		onCopy := over.Place(v.Path) != v.Path
		v.Path = over.Of(v.Path)
		r := refusal{Subject: needs.Subject(v), Why: v.Reason}
		if onCopy {
			r.Why = "each try works on a copy; the workspace cannot be reached under its own path"
		} else {
			for _, n := range needs.Of(v, d) {
				r.propose(n, d, cfg)
			}
		}
		t.Refused = append(t.Refused, r)
	}
	if result.ExitCode != 0 || len(t.Refused) > 0 {
		t.Refused = append(t.Refused, variablesRefused(argv, d, cfg)...)
		t.Refused = append(t.Refused, loopbackRefused(argv)...)
	}
	if outside := needs.ProgramOutside(argv[0]); result.ExitCode == cli.ExitNotFound && len(result.Content) > 0 && outside != "" {
		r := refusal{Subject: "execute " + outside, Why: "it cannot be shown"}
		for _, n := range needs.ToShow(d, outside) {
			r.propose(n, d, cfg)
		}
		t.Refused = append(t.Refused, r)
	}
	b, err := json.Marshal(t)
	if err == nil {
		err = os.WriteFile(filepath.Join(files, triedFile), b, 0o600)
	}
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}

// variablesRefused are variables of the programs that a command names, PIP_INDEX_URL of pip, which
// are set here and not inside, and paths that those inside name and that are not shown.
func variablesRefused(argv []string, d assemble.Derived, cfg *config.Config) (list []refusal) {
	var programs []string
	for _, word := range words().FindAllString(strings.ToLower(strings.Join(argv, " ")), -1) {
		if _, err := exec.LookPath(word); err == nil {
			programs = append(programs, strings.ToUpper(word))
		}
	}
	sees := sandboxprofile.NewLookup(d.Programs)
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if !slices.ContainsFunc(programs, func(p string) bool { return strings.HasPrefix(upper, p+"_") || p == "GO" && strings.HasPrefix(name, p) }) || strings.HasPrefix(upper, "LD_") {
			continue
		}
		path := strings.TrimPrefix(value, "file://")
		switch {
		case slices.Contains(d.Passed, name):
			if filepath.IsAbs(path) && sees.Rights(path)&sandboxprofile.Read == 0 {
				r := refusal{Subject: "read " + path + ", which " + name + " names"}
				r.propose(needs.Need{Path: path}, d, cfg)
				list = append(list, r)
			}
		case assemble.LooksSecret(kv):
			list = append(list, refusal{Subject: "the variable " + name, Why: "it seems to contain a secret"})
		default:
			list = append(list, refusal{Subject: "the variable " + name, Needs: []needs.Need{{Env: name}}})
		}
	}
	return list
}

var (
	words = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-z]{2,}`) })
	here  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:\blocalhost|\b127\.0\.0\.1|\[::1\]):([0-9]{1,5})\b`)
	})
)

// loopbackRefused are servers of this machine that a command names: inside, localhost is the
// sandbox's own.
func loopbackRefused(argv []string) (list []refusal) {
	for _, m := range here().FindAllStringSubmatch(strings.Join(argv, " "), -1) {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort("localhost", m[1]), time.Second); err == nil {
			c.Close()
			list = append(list, refusal{Subject: "connect " + m[0], Why: "inside the sandbox, this address is the sandbox itself; list the server as a service, " +
				`shell.network.services: {NAME: "127.0.0.1:` + m[1] + `"}, and let the command connect to NAME:` + m[1]})
		}
	}
	return list
}

// propose adds what would help, or says why it is not proposed.
func (r *refusal) propose(n needs.Need, d assemble.Derived, cfg *config.Config) {
	if n.Path != "" {
		if r.Why = notProposed(&n, d, cfg); r.Why != "" {
			return
		}
	}
	r.Why = ""
	r.Needs = append(r.Needs, n)
}

// notProposed resolves the path of a need, and says why it is not proposed; "" if it is.
func notProposed(n *needs.Need, d assemble.Derived, cfg *config.Config) string {
	real, err := assemble.Resolved(n.Path)
	if err != nil || !utf8.ValidString(real) {
		return "it is not there"
	}
	n.Path = real
	if why := neverShown(real); why != "" {
		return why
	}
	if why := neverWritten(real); n.Write && why != "" {
		return why
	}
	h := assemble.Host(d.Needs, "")
	info, err := os.Stat(real)
	switch {
	case err != nil || !info.IsDir() && !info.Mode().IsRegular():
		return "it is neither a file nor a directory"
	case h.Hidden(real):
		return "it is hidden"
	case n.Write && !info.IsDir():
		return "it is a single file to write: add its directory by hand"
	case sandboxprofile.IsSystemTree(real) && (n.Write || info.Mode().Perm()&0o004 == 0):
		return "it is a system file that not everyone may read"
	}
	if !n.Write {
		n.Preset = presetOf(real, d, cfg)
	}
	why := ""
	switch {
	case info.IsDir() && sandboxprofile.IsSystemTree(real): // everybody can read it
	case info.IsDir() && n.Preset != "": // as detection shows it
		if l := toolchains.Secrets(h, real); len(l) > 0 {
			why = l[0] + " in it seems to contain a secret"
		}
	default:
		why = secretAt(real, h.Hidden)
	}
	if why != "" {
		n.Preset = ""
	}
	return why
}

// presetOf is the shipped preset that has a path and is not in use, or "".
func presetOf(real string, d assemble.Derived, cfg *config.Config) string {
	for _, name := range profiles.PresetNames() {
		if name == systemPreset || slices.Contains(cfg.Sandbox.Presets, name) {
			continue
		}
		for _, g := range grantsOf(name, d.Needs.Home) {
			if sandboxprofile.Contains(g.Path, real) && sandboxprofile.Read.SubsetOf(g.Rights) {
				return name
			}
		}
	}
	return ""
}

// grantsOf are a shipped preset's, with the home directory's path.
func grantsOf(name, home string) []sandboxprofile.Grant {
	p, err := profiles.Preset(name)
	if err != nil {
		return nil
	}
	for i, g := range p.Grants {
		if rest, ok := strings.CutPrefix(g.Path, "~"); ok {
			p.Grants[i].Path = home + rest
		}
	}
	return p.Grants
}

// toolchainPresets are shipped presets that have something of what detection found.
func toolchainPresets(d assemble.Derived) (list []string) {
	for _, name := range profiles.PresetNames() {
		if name != systemPreset && slices.ContainsFunc(grantsOf(name, d.Needs.Home), func(g sandboxprofile.Grant) bool {
			return slices.ContainsFunc(d.Found.Grants, func(f sandboxprofile.Grant) bool { return sandboxprofile.Contains(g.Path, f.Path) })
		}) {
			list = append(list, name)
		}
	}
	return list
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// presentNames are those variables that are set.
func presentNames(names []string) []string {
	list := []string{}
	for _, name := range names {
		if _, set := os.LookupEnv(name); set {
			list = append(list, name)
		}
	}
	return list
}

// printed keeps the beginning of what a command prints, to compare it.
type printed struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

const maxPrinted = 1 << 20

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept.Write(b[:min(len(b), max(0, maxPrinted-p.kept.Len()))])
	return len(b), nil
}

// digest is of what was printed, wherever the draft is that it was printed on.
func (p *printed) digest(on *changes.Draft) string {
	text := p.kept.Bytes()
	for _, root := range on.Roots {
		text = bytes.ReplaceAll(text, []byte(on.Place(root)), []byte(root))
	}
	return digest(text)
}

// digest is of a text without its numbers: times, sizes and process ids differ from run to run.
func digest(b []byte) string {
	sum := sha256.Sum256(numbers().ReplaceAll(b, []byte("0")))
	return hex.EncodeToString(sum[:])
}

var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+`) })
