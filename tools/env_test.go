package tools

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBuildEnv(t *testing.T) {
	host := []string{
		"PATH=/usr/bin", "HOME=/home/u", "TOKEN=secret", "LANG=C", "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/evil",
		"DYLD_INSERT_LIBRARIES=/evil", "BASH_ENV=/evil", "BASH_FUNC_ls%%=() { evil; }", "GCONV_PATH=/evil", "EMPTY=",
		"=odd", "novalue", "WITH=a=b",
	}
	for _, c := range []struct {
		name  string
		allow []string
		set   map[string]string
		want  []string
	}{
		{"nothing allowed", nil, nil, nil},
		{"allowed and sorted", []string{"PATH", "LANG"}, nil, []string{"LANG=C", "PATH=/usr/bin"}},
		{"HOME is the private one", []string{"HOME"}, nil, []string{"HOME=/private"}},
		{"also when it is set", nil, map[string]string{"HOME": "/x"}, []string{"HOME=/private"}},
		{"absent on the host", []string{"TZ"}, nil, nil},
		{"empty and with an equals sign", []string{"EMPTY", "WITH"}, nil, []string{"EMPTY=", "WITH=a=b"}},
		{"set wins", []string{"LANG"}, map[string]string{"LANG": "de_DE", "X": "1"}, []string{"LANG=de_DE", "X=1"}},
		{"loader variables never pass", []string{
			"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "BASH_FUNC_ls%%", "GCONV_PATH", "LANG",
		}, nil, []string{"LANG=C"}},
		{"unless set", nil, map[string]string{"LD_PRELOAD": "/mine.so"}, []string{"LD_PRELOAD=/mine.so"}},
		{"impossible entries", []string{"", "novalue"}, map[string]string{"": "x", "A=B": "x", "NUL": "a\x00b"}, nil},
	} {
		if got := BuildEnv(c.allow, c.set, host, "/private"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestEnvironmentHoldsOnlyWhatIsAllowedOrSet(t *testing.T) {
	name := rapid.SampledFrom([]string{"A", "A_B", "AB", "A-", "HOME", "PATH", "LD_PRELOAD", "ENV", "B"})
	rapid.Check(t, func(t *rapid.T) {
		allow := rapid.SliceOf(name).Draw(t, "allow")
		set := rapid.MapOf(name, rapid.StringMatching(`[a-z]{0,3}`)).Draw(t, "set")
		var host []string
		for _, n := range rapid.SliceOf(name).Draw(t, "host") {
			host = append(host, n+"=host")
		}
		env := BuildEnv(allow, set, host, "/private")
		var names []string
		for _, entry := range env {
			n := EnvName(entry)
			names = append(names, n)
			if _, isSet := set[n]; !isSet && !slices.Contains(allow, n) {
				t.Fatalf("%q is neither allowed nor set", entry)
			}
			if n == "HOME" && entry != "HOME=/private" {
				t.Fatalf("%q is not the private home", entry)
			}
			if n == "LD_PRELOAD" && strings.HasSuffix(entry, "=host") {
				t.Fatalf("%q came from the host", entry)
			}
			if v, ok := LookupEnv(env, n); !ok || n+"="+v != entry {
				t.Fatalf("LookupEnv(%q) = %q, %v", n, v, ok)
			}
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("%q is not sorted, or names one twice", names)
		}
	})
}
