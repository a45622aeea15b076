//go:build !linux

package seccomp

import "errors"

// Filter is for Linux.
func Filter(lift []string) ([]byte, error) {
	if err := Check(lift); err != nil {
		return nil, err
	}
	return nil, errors.New("seccomp: compile: seccomp exists only on Linux")
}

// SharedFilter is for Linux, as Filter is.
func SharedFilter(bool) ([]byte, error) { return Filter(nil) }

// CeilingFilter is for Linux, as Filter is.
func CeilingFilter() ([]byte, error) { return Filter(nil) }

// BrokeredFilter is for Linux, as Filter is.
func BrokeredFilter(Brokered) ([]byte, error) { return Filter(nil) }

// BrokerFilter is for Linux, as Filter is.
func BrokerFilter(lift []string) ([]byte, error) { return Filter(lift) }
