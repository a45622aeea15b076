package sandboxprofile

import "fmt"

var networkModes = [...]string{"none", "proxied", "host"}

func (m NetworkMode) String() string {
	if int(m) < len(networkModes) {
		return networkModes[m]
	}
	return fmt.Sprintf("NetworkMode(%d)", uint8(m))
}

// MarshalText writes none, proxied or host.
func (m NetworkMode) MarshalText() ([]byte, error) {
	if int(m) >= len(networkModes) {
		return nil, fmt.Errorf("sandboxprofile: unknown network mode %d", uint8(m))
	}
	return []byte(networkModes[m]), nil
}

// UnmarshalText reads none, proxied or host, and nothing else.
func (m *NetworkMode) UnmarshalText(b []byte) error {
	for i, s := range networkModes {
		if s == string(b) {
			*m = NetworkMode(i)
			return nil
		}
	}
	return fmt.Errorf("sandboxprofile: network mode %q: want none, proxied or host", b)
}
