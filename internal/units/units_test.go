package units

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "7B": 7, "1KiB": 1024, "512MiB": 512 << 20, "4GiB": 4 << 30, "4 GiB": 4 << 30,
		"2TiB": 2 << 40, "3K": 3072, "10M": 10 << 20, "1G": 1 << 30, "1T": 1 << 40,
		"1kB": 1000, "1KB": 1000, "5MB": 5e6, "1GB": 1e9, "1TB": 1e12,
		"9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "not a size", "GiB": "not a size", "-1": "not a size", "1.5GiB": "not a size", "1 2": "not a size", "0x10": "not a size",
		"4gib": "unknown unit", "4GiBB": "unknown unit",
		"9223372036854775808": "too large", "8388608TiB": "too large",
	} {
		if _, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSize(%q): got %v, want %q", text, err, want)
		}
	}
}

func TestSizesAndDurationsReadBackAsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]Size{1, KiB, MiB, GiB}).Draw(t, "unit")
		size := Size(rapid.Int64Range(0, 1<<30).Draw(t, "n")) * unit
		if got, err := ParseSize(size.String()); err != nil || got != size {
			t.Fatalf("%d prints as %q and reads as %d, %v", size, size.String(), got, err)
		}
		step := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "step")
		d := time.Duration(rapid.Int64Range(0, 1<<20).Draw(t, "m")) * step
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v prints as %q and reads as %v, %v", d, FormatDuration(d), got, err)
		}
	})
}

func TestParseDurationWantsAUnit(t *testing.T) {
	for text, want := range map[string]string{"90": "write 90s", "0": "no unit", "1.5": "no unit", "soon": "not a duration", "": "not a duration", "1:30": "not a duration"} {
		if _, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q): got %v, want %q", text, err, want)
		}
	}
}
