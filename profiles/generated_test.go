package profiles

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

var update = flag.Bool("update", false, "rewrite generated.go")

// TestGeneratedIsWhatTheFilesSay: presets and lists of patterns are read from YAML here
// and not by every start, which would wait for it longer than for all the rest.
func TestGeneratedIsWhatTheFilesSay(t *testing.T) {
	var presets []sp.Preset
	for _, name := range PresetNames() {
		b, err := read("presets", "preset", name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePreset(name, b)
		if err != nil {
			t.Fatal(err)
		}
		presets = append(presets, p)
	}
	protect, hide := texts(ProtectPatterns()), texts(HidePatterns())
	if *update {
		if err := os.WriteFile("generated.go", generated(t, presets, protect, hide), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, c := range []struct {
		what      string
		want, got any
	}{{"presets", presets, shippedPresets}, {"protect", protect, Protect()}, {"hide", hide, Hide()}} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-file +generated.go; `make golden` rewrites it):\n%s", c.what, diff)
		}
	}
}

// generated is the text of generated.go.
func generated(t *testing.T, presets []sp.Preset, protect, hide []string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("// Code generated from presets/ and patterns/ by `make golden`; DO NOT EDIT.\n\npackage profiles\n\nimport sp \"github.com/sandgate/sandgate/sandboxprofile\"\n")
	for _, x := range []struct {
		name string
		list []string
	}{{"shippedProtect", protect}, {"shippedHide", hide}} {
		fmt.Fprintf(&b, "\nvar %s = []string{\n", x.name)
		for _, p := range x.list {
			fmt.Fprintf(&b, "%q,\n", p)
		}
		b.WriteString("}\n")
	}
	b.WriteString("\nvar shippedPresets = []sp.Preset{\n")
	for _, p := range presets {
		fmt.Fprintf(&b, "{Name: %q, Reason: %q, Grants: []sp.Grant{\n", p.Name, p.Reason)
		for _, g := range p.Grants {
			fmt.Fprintf(&b, "{Path: %q, Rights: %s, Reason: %q},\n", g.Path, rightsInGo(g.Rights), g.Reason)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rightsInGo(r sp.Rights) string {
	var names []string
	for _, n := range []struct {
		right sp.Rights
		name  string
	}{{sp.Read, "sp.Read"}, {sp.Execute, "sp.Execute"}} {
		if r&n.right != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " | ")
}

func texts(list []Pattern) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Pattern
	}
	return out
}

type presetFile struct {
	Name   string  `yaml:"name"`
	Reason string  `yaml:"reason"`
	Grants []grant `yaml:"grants"`
}

type grant struct {
	Path   string `yaml:"path"`
	Rights string `yaml:"rights"`
	Reason string `yaml:"reason"`
}

func parsePreset(name string, b []byte) (sp.Preset, error) {
	var f presetFile
	if err := decode(b, &f); err != nil {
		return sp.Preset{}, err
	}
	p := sp.Preset{Name: f.Name, Reason: f.Reason}
	if f.Name != name || f.Reason == "" || len(f.Grants) == 0 {
		return p, fmt.Errorf("profiles: %s: a preset needs a name like its file's, a reason and grants", name)
	}
	for _, g := range f.Grants {
		grant, err := g.parse()
		if err == nil && !grant.Rights.SubsetOf(sp.Read|sp.Execute) {
			err = fmt.Errorf("a preset cannot grant %v", grant.Rights)
		}
		if err != nil {
			return p, fmt.Errorf("profiles: %s: %q: %w", name, g.Path, err)
		}
		p.Grants = append(p.Grants, grant)
	}
	return p, nil
}

func (g grant) parse() (sp.Grant, error) {
	rights, err := sp.ParseRights(g.Rights)
	if err != nil {
		return sp.Grant{}, err
	}
	rooted := strings.Replace(g.Path, "~/", "/", 1)
	switch {
	case g.Reason == "":
		return sp.Grant{}, fmt.Errorf("has no reason")
	case !path.IsAbs(rooted) || path.Clean(rooted) != rooted:
		return sp.Grant{}, fmt.Errorf("is no clean path that starts with / or ~/")
	}
	return sp.Grant{Path: g.Path, Rights: rights, Reason: g.Reason}, nil
}
