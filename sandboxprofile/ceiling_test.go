package sandboxprofile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

// TestClassOf: the class follows from what the action can do, whatever it is about.
func TestClassOf(t *testing.T) {
	program := Action{Kind: Exec, Exec: &Program{Path: "/bin/true"}}
	secret := Action{Kind: Exec, Exec: &Program{Secrets: []Secret{{Name: "TOKEN", File: "/t"}}}}
	placeholder := Action{Kind: Exec, Exec: &Program{Secrets: []Secret{{Name: "TOKEN", File: "/t", Host: "h:443"}}}}
	read := Profile{Paths: map[string]Rights{"/w": Read | Execute}, Scratch: []string{"/tmp"}}
	write := Profile{Paths: map[string]Rights{"/w": Read | Write}}
	for name, x := range map[string]struct {
		profile Profile
		action  Action
		want    Class
	}{
		"nothing":                       {read, Action{}, Unclassified},
		"a file that is read":           {write, Action{Kind: ReadFile}, ClassRead},
		"a search":                      {write, Action{Kind: GrepFiles}, ClassRead},
		"a file that is written":        {read, Action{Kind: WriteFile}, ClassWorkspace},
		"a program that can only read":  {read, program, ClassRead},
		"a program that can write":      {write, program, ClassWorkspace},
		"listed hosts":                  {Profile{Network: Network{Mode: NetworkProxied}}, program, ClassWorkspace},
		"the network of the host":       {Profile{Network: Network{Mode: NetworkHost}}, program, ClassBeyond},
		"a socket of the host":          {Profile{UnixSockets: []string{"/s"}}, program, ClassBeyond},
		"a device":                      {Profile{Devices: []string{"/dev/kvm"}}, program, ClassBeyond},
		"a secret":                      {read, secret, ClassBeyond},
		"a placeholder for a secret":    {read, placeholder, ClassRead},
		"a network mode nobody knows":   {Profile{Network: Network{Mode: 9}}, program, ClassBeyond},
		"a kind of action nobody knows": {read, Action{Kind: "format_disk"}, Unclassified},
	} {
		if got := ClassOf(x.profile, x.action); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// TestUnderIsWithin: a ceiling only takes away, and what is left is of its class.
func TestUnderIsWithin(t *testing.T) {
	program := Action{Kind: Exec, Exec: &Program{Path: "/bin/true"}}
	rapid.Check(t, func(t *rapid.T) {
		p := genProfile.Draw(t, "p")
		p.Network.Expose = nil
		c := rapid.SampledFrom([]Class{ClassRead, ClassWorkspace, ClassBeyond}).Draw(t, "class")
		under := p.Under(c)
		for k := range p.Paths {
			if !under.Rights(k).SubsetOf(p.Rights(k)) {
				t.Fatalf("%s: %v under %v, was %v", k, under.Rights(k), c, p.Rights(k))
			}
		}
		if under.Network.Mode > p.Network.Mode || len(under.UnixSockets) > len(p.UnixSockets) || len(under.Devices) > len(p.Devices) {
			t.Fatalf("%+v is more than %+v", under, p)
		}
		if got := ClassOf(under, program); c == ClassRead && got != ClassRead {
			t.Fatalf("%+v is of class %v", under, got)
		}
	})
}

// TestOpenHasNothingWritableBelow: a scratch directory that stays writable under a
// ceiling has nothing of the user's in it that could be written.
func TestOpenHasNothingWritableBelow(t *testing.T) {
	p := Profile{
		Paths:   map[string]Rights{"/home/u/work": Read | Write, "/opt/cache/tool": Read, "/tmp": 0},
		Scratch: []string{"/tmp", "/home/u", "/opt/cache"},
	}
	if got := p.Open(); !slices.Equal(got, []string{"/tmp", "/opt/cache"}) {
		t.Errorf("open: %v", got)
	}
}

// TestCeilingsAreNotHeldByMistake: the zero value, a class from a newer file and a
// contradiction are refused.
func TestCeilingsAreNotHeldByMistake(t *testing.T) {
	program, write := Action{Kind: Exec}, Action{Kind: WriteFile}
	for _, x := range []struct {
		ceiling Ceiling
		action  Action
		ok      bool
	}{
		{Ceiling{}, program, false},
		{Ceiling{Class: 7, AnyProgram: true}, program, false},
		{Ceiling{Class: ClassRead, AnyProgram: true, Programs: []string{"/bin/ls"}}, program, false},
		{Ceiling{Class: ClassRead, AnyProgram: true}, write, false},
		{Ceiling{Class: ClassRead, AnyProgram: true}, program, true},
		{Ceiling{Class: ClassRead, Programs: []string{"/bin/ls"}}, program, true},
		{Ceiling{Class: ClassWorkspace, AnyProgram: true}, write, true},
	} {
		if err := x.ceiling.Validate(x.action); (err == nil) != x.ok {
			t.Errorf("%+v over %s: %v", x.ceiling, x.action.Kind, err)
		}
	}
	var c Ceiling
	if err := json.Unmarshal([]byte(`{"class":"admin"}`), &c); err == nil || !strings.Contains(err.Error(), "admin") {
		t.Errorf("a class that is none: %v, %+v", err, c)
	}
	for _, class := range []Class{ClassRead, ClassWorkspace, ClassBeyond} {
		b, err := json.Marshal(Ceiling{Class: class})
		if err != nil {
			t.Fatal(err)
		}
		var back Ceiling
		if err := json.Unmarshal(b, &back); err != nil || back.Class != class {
			t.Errorf("%s: %+v, %v", b, back, err)
		}
	}
}
