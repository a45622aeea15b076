package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// Size is a number of bytes.
type Size int64

const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// A sizeUnit is one suffix. For printing, the first that divides a size wins.
type sizeUnit struct {
	suffix string
	bytes  Size
}

// A single letter means the binary unit, as for systemd(1) and ulimit-like
// tools; "kB" and the like are the decimal units of the SI.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
		{"B", 1}, {"", 1},
		{"T", TiB}, {"G", GiB}, {"M", MiB}, {"K", KiB},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	}
}

// String prints s in the largest unit that holds it exactly: "4GiB".
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.suffix
		}
	}
	return "0B"
}

var sizePattern = lazily(`^([0-9]+) ?([A-Za-z]*)$`)

// ParseSize reads a whole number of bytes, with a unit: "4GiB", "512M", "1000".
func ParseSize(s string) (Size, error) {
	m := sizePattern().FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%s is not a size; write a whole number and a unit, such as 512MiB", quote(s))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", quote(s))
	}
	for _, u := range sizeUnits() {
		if u.suffix != m[2] {
			continue
		}
		if n > math.MaxInt64/int64(u.bytes) {
			return 0, fmt.Errorf("%s is too large", quote(s))
		}
		return Size(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("%s has the unknown unit %s; the units are B, KiB, MiB, GiB and TiB", quote(s), quote(m[2]))
}

// ParseDuration reads a time with a unit, as time.ParseDuration does: "90s", "2m".
func ParseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%s has no unit; write %ss for seconds", quote(s), s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New(quote(s) + " is not a duration; write a number and a unit, such as 90s, 2m or 1h30m")
	}
	return d, nil
}

// formatDuration prints d without the zero parts of Duration.String: "2m", not "2m0s".
func formatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}

// lazily compiles a pattern when it is first asked for: every command has this package,
// and few ask for all of it.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
