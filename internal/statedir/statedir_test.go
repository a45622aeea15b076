package statedir

import "testing"

func TestPath(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/state", "/home/u", "/state/sandgate/x"},
		{"", "/home/u", "/home/u/.local/state/sandgate/x"},
		{"relative", "/home/u", "/home/u/.local/state/sandgate/x"},
		{"/state", "", "/state/sandgate/x"},
		{"relative", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got, err := Path("x"); got != c.want || (err == nil) == (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
