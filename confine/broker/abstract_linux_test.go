package broker

import (
	"encoding/hex"
	"strings"
	"testing"
)

// TestAbstractNamesTellNoKey: everybody can list what sockets are bound to. Whatever the
// program's name is, the host's is short, and one that no other sandbox has.
func TestAbstractNamesTellNoKey(t *testing.T) {
	key := []byte("0123456789abcdef")
	var brokers [2]*Broker
	for i := range brokers {
		var err error
		if brokers[i], err = New(Options{Rules: &Rules{}, Network: Network{Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"", "x", strings.Repeat("a", 82), strings.Repeat("a", 107), strings.Repeat("a", 106) + "b", "a\x00b", "a\x00"} {
		for i, b := range brokers {
			got := b.abstract(name)
			if len(got) > 64 || got != b.abstract(name) || seen[got] != "" || strings.Contains(got, hex.EncodeToString(key[:4])) {
				t.Errorf("%q in sandbox %d: %q, before %q", name, i, got, seen[got])
			}
			seen[got] = name + "."
		}
	}
}
