package sandboxprofile

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"testing"
)

// TestMemoComparesContent: a memo knows a profile by what is in it, whoever made
// it, and takes one that was changed for another.
func TestMemoComparesContent(t *testing.T) {
	computed := 0
	m := NewMemo(func(Profile) int { computed++; return computed })
	p := full()
	first, again := m.Of(p), m.Of(p)
	if first != 1 || again != 1 || m.Of(full()) != 1 {
		t.Fatal("the same profile was computed twice")
	}
	for i, change := range everyChange() {
		q := full()
		change(&q)
		if got := m.Of(q); got != i+2 {
			t.Errorf("change %d was not noticed: %d", i, got)
		}
	}
	p.Paths["/a"] = 0 // the caller's own; the memo has a copy
	if m.Of(full()) != 1 || m.Of(p) == 1 {
		t.Error("the memo's copy was changed from outside")
	}
}

// TestMemoKnowsEveryField: a field that is added to Profile has to be added to the
// comparison; a value of it that is not zero must tell two profiles apart.
func TestMemoKnowsEveryField(t *testing.T) {
	var differ func(path string, v reflect.Value, set func(reflect.Value))
	differ = func(path string, v reflect.Value, set func(reflect.Value)) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				differ(path+"."+v.Type().Field(i).Name, v.Field(i), func(x reflect.Value) {
					whole := reflect.New(v.Type()).Elem()
					whole.Field(i).Set(x)
					set(whole)
				})
			}
			return
		}
		set(notZero(v.Type()))
		_ = path
	}
	differ("Profile", reflect.ValueOf(Profile{}), func(x reflect.Value) {
		p := x.Interface().(Profile)
		if identical(p, Profile{}) {
			t.Errorf("identical to the zero profile: %+v", p)
		}
		if c := p.clone(); !identical(c, p) || !reflect.DeepEqual(c, p) {
			t.Errorf("%+v is not its own clone %+v", p, c)
		}
	})
}

func notZero(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Slice:
		v = reflect.Append(v, notZero(t.Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(notZero(t.Key()), notZero(t.Elem()))
	default:
		panic(fmt.Sprintf("a field of kind %v: teach the memo and this test", t.Kind()))
	}
	return v
}

func full() Profile {
	return Profile{
		Paths: map[string]Rights{"/a": Read, "/b": Read | Write}, Scratch: []string{"/tmp"}, Protect: []string{".git"}, Hide: []string{".env"},
		Network: Network{Mode: NetworkProxied, Allow: [][]string{{"a", "b"}, {"c"}}}, UnixSockets: []string{"/s"},
		Devices: []string{"/dev/x"}, Syscalls: []string{"ptrace"}, Env: Env{Names: []string{"PATH"}}, Limits: NoLimits(),
	}
}

func everyChange() []func(*Profile) {
	return []func(*Profile){
		func(p *Profile) { p.Paths["/a"] = Read | Execute },
		func(p *Profile) { p.Paths["/c"] = Read },
		func(p *Profile) { p.Scratch, p.Protect = []string{}, []string{"/tmp", ".git"} },
		func(p *Profile) { p.Hide = nil },
		func(p *Profile) { p.Hide = []string{} },
		func(p *Profile) { p.Network.Allow = [][]string{{"a"}, {"b", "c"}} },
		func(p *Profile) { p.Network.Ask = true },
		func(p *Profile) { p.Limits.Wall = 1 },
		func(p *Profile) { p.Fresh = true },
	}
}

// TestMemoIsBounded: however many profiles come, it keeps a bounded number.
func TestMemoIsBounded(t *testing.T) {
	m := NewMemo(func(p Profile) int64 { return p.Limits.Pids })
	for i := range int64(10 * maxMemo) {
		if got := m.Of(Profile{Limits: Limits{Pids: i}}); got != i {
			t.Fatalf("%d for %d", got, i)
		}
	}
	if len(m.known) > maxMemo || m.n > maxMemo {
		t.Errorf("%d are kept", len(m.known))
	}
}

func BenchmarkMemo(b *testing.B) {
	p := full()
	for i := range 50 {
		p.Paths[fmt.Sprintf("/usr/share/%d", i)] = Read
		p.Protect = append(p.Protect, fmt.Sprintf(".config/%d", i))
	}
	m := NewMemo(func(Profile) int { return 1 })
	for b.Loop() {
		m.Of(p)
	}
	_ = p.hash(maphash.MakeSeed())
}
