package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/approval"
)

// RulesFileName is the name of a file of standing rules, beside a FileName.
const RulesFileName = "rules.yaml"

// A StandingRule is one entry of a file of standing rules: an operator's permanent
// answer about tools, connectors or commands. Exactly one of Shell, and Tool with
// Connector, says what it is about.
type StandingRule struct {
	Position Position `yaml:"-" role:"position"`
	// ID names the rule in decisions, in the log, and to remove it.
	ID     string `yaml:"id" need:"required"`
	Effect Effect `yaml:"effect" need:"required"`
	// Tool and Connector are globs: * is any run of characters and ? is one.
	Tool      string `yaml:"tool"`
	Connector string `yaml:"connector"`
	// Agent is a glob that limits a rule about tools to agents with a matching name; "" means every
	// agent. The name is only a label: the client that opens a session chooses it.
	Agent string `yaml:"agent"`
	// Shell is the words with which a command begins, as in `shell.rules`.
	Shell    string `yaml:"shell"`
	Exact    bool   `yaml:"exact"`
	ReadOnly bool   `yaml:"read_only"`
	Reason   string `yaml:"reason"`
	// Match and NoMatch are examples that the rule must and must not cover: command lines, TOOL or
	// CONNECTOR/TOOL. A file with a rule that fails them does not load.
	Match   []string `yaml:"match"`
	NoMatch []string `yaml:"no_match"`
	// Added and By say when and by whom the rule was added, as RFC 3339 and as the
	// kernel names the peer. They decide nothing.
	Added string `yaml:"added"`
	By    string `yaml:"by"`
}

// rulesFile is the whole file.
type rulesFile struct {
	Version int            `yaml:"version" need:"required"`
	Rules   []StandingRule `yaml:"rules"`
}

// ParseRules reads a file of standing rules, strictly, as Parse does. What is
// wrong with it is an *Error. Examples of shell rules are left to package shell.
func ParseRules(data []byte, file string) ([]StandingRule, error) {
	doc, err := parseDocument(data, file)
	if err != nil || doc == nil {
		return nil, err
	}
	var f rulesFile
	d := newDecoder(file)
	d.value(doc, reflect.ValueOf(&f).Elem(), "")
	k := &checker{c: &Config{Origins: d.origins}, d: d}
	if f.Version != 1 && !k.unusable("version") {
		k.problem("version", fmt.Sprintf("unknown version %d", f.Version), "use version: 1")
	}
	for i := range f.Rules {
		k.standing(fieldIndex("rules", i), &f.Rules[i], f.Rules[:i])
	}
	return f.Rules, newError(file, d.problems)
}

func (k *checker) standing(field string, r *StandingRule, before []StandingRule) {
	if !plainKey(r.ID) && !k.unusable(field+".id") {
		k.problem(field+".id", quote(r.ID)+" is not a valid name", "use letters, digits, - and _")
	}
	if i := slices.IndexFunc(before, func(b StandingRule) bool { return b.ID == r.ID }); i >= 0 {
		k.problem(field+".id", fmt.Sprintf("the id %s is used twice, first on line %d", quote(r.ID), before[i].Position.Line), "choose another")
	}
	k.examples(field+".match", r.Match)
	k.examples(field+".no_match", r.NoMatch)
	if r.Added != "" {
		if _, err := time.Parse(time.RFC3339, r.Added); err != nil {
			k.problem(field+".added", quote(r.Added)+" is not a time", "2006-01-02T15:04:05Z")
		}
	}
	switch shell, tool := r.Shell != "", r.Tool != "" || r.Connector != ""; {
	case k.faulty(field): // a misspelt key may have been the one that is missing
	case shell == tool:
		k.problem(field, "a rule has either shell, or tool and connector", "use one of shell, tool, connector")
	case shell:
		k.standingShell(field, r)
	default:
		k.standingTool(field, r)
	}
}

// faulty reports whether something in a field has a problem.
func (k *checker) faulty(field string) bool {
	for bad := range k.d.bad {
		if strings.HasPrefix(bad, field+".") || bad == field {
			return true
		}
	}
	return false
}

func (k *checker) standingShell(field string, r *StandingRule) {
	k.pattern(field+".shell", r.Shell)
	if r.Agent != "" {
		k.problem(field+".agent", "a rule with shell applies to every agent", "remove agent, or use tool: shell instead")
	}
	if r.ReadOnly && r.Effect == Deny {
		k.problem(field+".read_only", "read_only needs a rule that allows; this rule denies", "remove one of the two")
	}
}

func (k *checker) standingTool(field string, r *StandingRule) {
	if r.Effect == Ask {
		k.problem(field+".effect", "a rule for tools can only allow or deny", "use ask only with shell; tools decide themselves when to ask")
	}
	if r.Exact || r.ReadOnly {
		k.problem(field, "exact and read_only need shell", "remove them")
	}
	if r.Effect == Allow && strings.Trim(r.Tool, "*?") == "" && strings.Trim(r.Connector, "*?") == "" {
		k.problem(field, "the rule would allow every tool", "name the tools, as in github_*")
	}
	if k.faulty(field) {
		return
	}
	for i, m := range r.Match {
		if !r.covers(m) {
			k.problem(fieldIndex(field+".match", i), "the rule does not match its example "+quote(m), "")
		}
	}
	for i, m := range r.NoMatch {
		if r.covers(m) {
			k.problem(fieldIndex(field+".no_match", i), "the rule matches its counterexample "+quote(m), "")
		}
	}
}

// covers reports whether a rule about tools matches TOOL or CONNECTOR/TOOL.
func (r *StandingRule) covers(example string) bool {
	connector, tool, ok := strings.Cut(example, "/")
	if !ok {
		connector, tool = "", example
	}
	list, err := approval.NewRules(approval.Rule{Effect: approval.Deny, Tool: r.Tool, Connector: r.Connector})
	if err != nil {
		return false
	}
	_, covered := list.Match(approval.Deny, approval.Call{ToolName: tool, Connector: connector})
	return covered
}

// AppendRule gives the file data with r at its end. Comments and the order of
// the rest stay. data must be what ParseRules takes; empty is a new file.
func AppendRule(data []byte, r StandingRule) ([]byte, error) {
	return editRules(data, func(list *yaml.Node) {
		e := encoder{}
		n := e.value(reflect.ValueOf(r), "")
		n.Content = slices.Clip(dropEmpty(n.Content))
		list.Style &^= yaml.FlowStyle // a list that was [] cannot hold it
		list.Content = append(list.Content, n)
	})
}

// RemoveRule gives the file data without the rule called id.
func RemoveRule(data []byte, id string) ([]byte, error) {
	return editRules(data, func(list *yaml.Node) {
		list.Content = slices.DeleteFunc(list.Content, func(n *yaml.Node) bool {
			var r struct {
				ID string `yaml:"id"`
			}
			return n.Decode(&r) == nil && r.ID == id
		})
	})
}

// dropEmpty leaves out keys whose value says nothing.
func dropEmpty(pairs []*yaml.Node) []*yaml.Node {
	var keep []*yaml.Node
	for i := 0; i+1 < len(pairs); i += 2 {
		v := pairs[i+1]
		if v.Value == "" && len(v.Content) == 0 || v.Tag == "!!bool" && v.Value == "false" {
			continue
		}
		keep = append(keep, pairs[i], v)
	}
	return keep
}

const newRulesFile = `# Standing rules of sandgate. ` + "`sandgate rules add`" + ` writes here; you can edit this file. Then
# run ` + "`sandgate rules reload`" + ` if a supervisor is running.
version: 1
rules: []
`

func editRules(data []byte, edit func(list *yaml.Node)) ([]byte, error) {
	var doc yaml.Node
	err := yaml.Unmarshal(data, &doc)
	if err == nil && len(doc.Content) == 0 { // nothing, or nothing but comments
		err = yaml.Unmarshal(append(append(slices.Clip(data), '\n'), newRulesFile...), &doc)
	}
	if err != nil {
		return nil, fmt.Errorf("config: edit rules: %w", err)
	}
	list, err := rulesNode(&doc)
	if err != nil {
		return nil, err
	}
	edit(list)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("config: edit rules: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// rulesNode finds the list `rules`, and creates it if it does not exist.
func rulesNode(doc *yaml.Node) (*yaml.Node, error) {
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("config: edit rules: the file is not a mapping")
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "rules" {
			return root.Content[i+1], nil
		}
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "rules"}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	root.Content = append(root.Content, key, list)
	return list, nil
}

// ReadRules reads one file of standing rules and gives its bytes too; a file that
// is not there is empty. One that others could have written is refused.
func ReadRules(t RulesTier) ([]StandingRule, []byte, error) {
	f, err := os.Open(t.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	if err := checkTrust(Found{Path: t.Path, Name: t.Path, Tier: t.Tier}, info); err != nil {
		return nil, nil, err
	}
	data, err := readBounded(f)
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	rules, err := ParseRules(data, t.Path)
	return rules, data, err
}

// A RulesTier is whose file a standing rule is in.
type RulesTier struct {
	Tier Tier
	Path string
}

// RulesFiles are the files of standing rules, the administrator's first. Unlike
// a configuration, every one that is there holds.
func (env Env) RulesFiles() []RulesTier {
	var list []RulesTier
	if path := inDir(env.AdminDir, RulesFileName); path != "" {
		list = append(list, RulesTier{TierAdmin, path})
	}
	if path := inDir(env.ConfigHome, "sandgate", RulesFileName); path != "" {
		list = append(list, RulesTier{TierUser, path})
	}
	return list
}
