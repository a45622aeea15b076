package configdiff

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Difference is in what two configurations differ.
type Difference struct {
	Looked   int                                `json:"looked"` // calls that were decided under both
	Calls    []callChange                       `json:"calls"`
	Profiles map[string][]sandboxprofile.Change `json:"profiles"` // by whom they are for
	Settings []settingChange                    `json:"settings"`
}

// A callChange is a call that is decided otherwise, or held to something else.
type callChange struct {
	Tool   string                `json:"tool"`
	Call   string                `json:"call"`
	Before callOutcome           `json:"before"`
	After  callOutcome           `json:"after"`
	Effect sandboxprofile.Effect `json:"effect"`
}

type settingChange struct {
	Key    string `json:"key"`
	Before any    `json:"before"` // nil: it is not there
	After  any    `json:"after"`
}

func (d Difference) Any() bool { return len(d.Calls)+len(d.Profiles)+len(d.Settings) > 0 }

func Between(from, to string) (d Difference, err error) {
	load := func(name string) (*config.Config, error) {
		if name == InUse {
			name = ""
		}
		return settings.Load(name, "")
	}
	old, err := load(from)
	if err != nil {
		return d, err
	}
	now, err := load(to)
	if err != nil {
		return d, err
	}
	calls := sampleCalls(old, now)
	before, err := outcomeOf(old, calls)
	if err != nil {
		return d, err
	}
	after, err := outcomeOf(now, calls)
	if err != nil {
		return d, err
	}
	d = Difference{Looked: len(calls), Calls: []callChange{}, Profiles: map[string][]sandboxprofile.Change{}, Settings: []settingChange{}}
	for i, c := range calls {
		b, a := before.calls[i], after.calls[i]
		if b.Decision == a.Decision && b.Held == a.Held {
			continue
		}
		d.Calls = append(d.Calls, callChange{string(c.Tool), c.subject, b, a, callEffect(b, a)})
	}
	for _, name := range slices.Sorted(maps.Keys(union2(before.profiles, after.profiles))) {
		was, is := before.profiles[name], after.profiles[name] // the zero one grants nothing: there is no such tool
		if l := sandboxprofile.Diff(was, is); len(l) > 0 {
			d.Profiles[name] = l
		}
	}
	d.Settings, err = diffSettings(old, now)
	return d, err
}

func union2[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// looseness orders decisions from the strictest on.
var looseness = map[protocol.CheckDecision]int{protocol.CheckDeny: 0, protocol.CheckAsk: 1, protocol.CheckAllow: 2}

func callEffect(before, after callOutcome) sandboxprofile.Effect {
	switch b, a := looseness[before.Decision], looseness[after.Decision]; {
	case a > b:
		return sandboxprofile.More
	case a < b:
		return sandboxprofile.Less
	}
	return sandboxprofile.Both
}

// A sampleCall is a call that stands for a class of them.
type sampleCall struct {
	protocol.RulesTest
	subject string
}

func sample(tool protocol.ToolName, subject string, args map[string]any) sampleCall {
	b, err := json.Marshal(args)
	if err != nil {
		panic("sandgate: bug: arguments that are not JSON: " + err.Error())
	}
	return sampleCall{protocol.RulesTest{Tool: tool, Args: b}, subject}
}

// sampleCommands are one command of each class that rules and ceilings tell apart.
var sampleCommands = []string{
	"ls", "cat %/file", "grep -r x %", "touch %/file", "rm -r %/dir", "echo x > %/file", "echo x > /tmp/file", "mkdir %/dir", "sed -i s/a/b/ %/file",
	"git status", "git commit -m x", "git push", "make", "npm test", "npm install", "go test ./...", "go build", "python3 %/file.py", "python3 -c 1", "node %/file.js",
	"bash %/file.sh", "curl https://example.org/", "pip install x", "sudo true", "$x", "eval x", "ls; $(x)", "cat /etc/passwd", "cat ~/.ssh/id_rsa",
}

// sampleCalls stand for the classes of calls under two configurations: each rule of either is
// asked about by its own words, and each path in ordinary, hidden and protected names.
func sampleCalls(configs ...*config.Config) (calls []sampleCall) {
	told := map[string]bool{}
	add := func(c sampleCall) {
		if key := string(c.Tool) + "\x00" + c.subject; !told[key] {
			told[key] = true
			calls = append(calls, c)
		}
	}
	start := configs[0].StartDir()
	command := func(text string) {
		add(sample("shell", text, map[string]any{"command": text, "dir": start}))
	}
	for _, text := range sampleCommands {
		command(strings.ReplaceAll(text, "%", start))
	}
	add(sample("run_background", "make", map[string]any{"command": "make"}))
	for _, c := range configs {
		for _, r := range c.Shell.Rules {
			command(r.Pattern)
			for _, m := range r.Match {
				command(m)
			}
		}
		for _, p := range append(slices.Clone(c.Sandbox.Paths), config.Path{Root: "/srv"}) {
			name := "file"
			if len(p.Suffixes) > 0 {
				name += p.Suffixes[0]
			}
			for _, below := range []string{name, ".env", ".git/hooks/pre-commit", ".git/config"} {
				file := filepath.Join(p.Root, below)
				add(sample("read_file", file, map[string]any{"path": file}))
				add(sample("write_file", file, map[string]any{"path": file, "content": ""}))
			}
			add(sample("list_files", p.Root, map[string]any{"path": p.Root}))
		}
		for _, t := range c.Tools {
			add(sample(protocol.ToolName(t.Name), "without arguments", map[string]any{}))
		}
	}
	return calls
}

// A configOutcome is the effect of a configuration on calls, and the profile that tools
// run under.
type configOutcome struct {
	calls    []callOutcome
	profiles map[string]sandboxprofile.Profile
}

type callOutcome struct {
	Decision protocol.CheckDecision `json:"decision"`
	Step     string                 `json:"step,omitempty"`
	Rule     string                 `json:"rule,omitempty"`
	// Held is what the kernel limits the call to, in words.
	Held string `json:"held,omitempty"`
}

// Whom profiles are for; those of custom tools are called ofTool and the name.
const ofPrograms, ofFiles, ofTool = "programs", "file tools", "the tool "

// outcomeOf derives and decides, and runs nothing.
func outcomeOf(c *config.Config, calls []sampleCall) (o configOutcome, err error) {
	o.profiles = map[string]sandboxprofile.Profile{}
	kept, err := assemble.PresentOwnPaths(c)
	if err != nil {
		return o, err
	}
	d, err := assemble.Derive(c, kept, "")
	if err != nil {
		return o, err
	}
	operator, err := assemble.OperatorProfile(c)
	if err != nil {
		return o, err
	}
	o.profiles[ofPrograms] = sandboxprofile.Intersect(d.Programs, operator)
	o.profiles[ofFiles] = sandboxprofile.Intersect(d.Files, operator)
	for i := range c.Tools {
		tool, err := assemble.CustomTool(c, d, nil, &c.Tools[i])
		if err != nil {
			return o, cli.UsageError(err)
		}
		o.profiles[ofTool+c.Tools[i].Name] = sandboxprofile.Intersect(tool.Profile, operator)
	}
	service, err := ruleservice.NewLocal(c)
	if err != nil {
		return o, err
	}
	defer service.Close()
	for _, call := range calls {
		got, err := service.TestRules(context.Background(), call.RulesTest)
		if err != nil {
			got = protocol.RulesTested{Decision: protocol.CheckDeny} // no such tool, program or argument
		}
		held := got.Ceiling
		if held == "" {
			held = got.Class
		}
		o.calls = append(o.calls, callOutcome{got.Decision, got.Step, got.Rule, held})
	}
	return o, nil
}

// diffSettings compares every key.
func diffSettings(old, now *config.Config) ([]settingChange, error) {
	list := []settingChange{}
	a, err := old.Plain()
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	b, err := now.Plain()
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	before, after := map[string]any{}, map[string]any{}
	flatten("", a, before)
	flatten("", b, after)
	for _, key := range slices.Sorted(maps.Keys(union2(before, after))) {
		if !reflect.DeepEqual(before[key], after[key]) {
			list = append(list, settingChange{key, before[key], after[key]})
		}
	}
	return list, nil
}

func flatten(prefix string, v map[string]any, to map[string]any) {
	for key, value := range v {
		at := strings.TrimPrefix(prefix+"."+key, ".")
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			flatten(at, inner, to)
		} else {
			to[at] = value
		}
	}
}

func (d Difference) Print(w io.Writer) error {
	var b strings.Builder
	marks := map[sandboxprofile.Effect]string{sandboxprofile.Less: "-", sandboxprofile.More: "+"}
	section := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	if !d.Any() {
		section("Nothing differs (%d calls were decided under both).", d.Looked)
	}
	if len(d.Calls) > 0 {
		section("Calls that are decided or confined differently (%d of %d compared):", len(d.Calls), d.Looked)
	}
	for _, c := range d.Calls {
		mark, what := marks[c.Effect], string(c.Before.Decision)+" -> "+string(c.After.Decision)
		if mark == "" {
			mark, what = "~", "held to "+c.Before.Held+" -> "+c.After.Held
		}
		line := fmt.Sprintf("%s %-11s %s  %s  (%s)", mark, c.Tool, what, c.Call, cli.Join(": ", c.After.Step, c.After.Rule))
		fmt.Fprintln(&b, approval.EscapeLine(line))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Profiles)) {
		profile := d.Profiles[name]
		if tool, ok := strings.CutPrefix(name, ofTool); ok {
			name = ofTool + approval.EscapeName(tool)
		}
		section("The sandbox of %s:", name)
		if err := PrintProfileChanges(&b, profile); err != nil {
			return err
		}
	}
	if len(d.Settings) > 0 {
		section("Keys with different values:")
	}
	for _, s := range d.Settings {
		fmt.Fprintln(&b, approval.EscapeLine(fmt.Sprintf("%s: %s -> %s", s.Key, valueText(s.Before), valueText(s.After))))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func valueText(v any) string {
	if v == nil {
		return "(not set)"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
