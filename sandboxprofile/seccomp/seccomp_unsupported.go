//go:build !(linux && cgo)

package seccomp

import "errors"

// Filter needs libseccomp, which this build was made without.
func Filter(lift []string) ([]byte, error) {
	if err := Check(lift); err != nil {
		return nil, err
	}
	return nil, errors.New("seccomp: compile: this build has no libseccomp (it needs Linux and cgo)")
}

// SharedFilter needs libseccomp, as Filter does.
func SharedFilter(bool) ([]byte, error) { return Filter(nil) }

// CeilingFilter needs libseccomp, as Filter does.
func CeilingFilter() ([]byte, error) { return Filter(nil) }

// BrokeredFilter needs libseccomp, as Filter does.
func BrokeredFilter(Brokered) ([]byte, error) { return Filter(nil) }

// BrokerFilter needs libseccomp, as Filter does.
func BrokerFilter(lift []string) ([]byte, error) { return Filter(lift) }
