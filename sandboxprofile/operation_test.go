package sandboxprofile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

func TestOperationReadsTheLinesAskedFor(t *testing.T) {
	const file = "one\ntwo\n\nfour\nfive"
	for _, c := range []struct {
		first, lines, max int64
		want              string
		truncated         bool
	}{
		{0, 0, 100, file, false},
		{1, 0, 100, file, false},
		{2, 0, 100, "two\n\nfour\nfive", false},
		{2, 1, 100, "two\n", false},
		{3, 1, 100, "\n", false},
		{5, 9, 100, "five", false},
		{6, 0, 100, "", false},
		{1, 2, 8, "one\ntwo\n", false},
		{1, 2, 7, "one\ntwo", true},
		{1, 0, 0, "", true},
	} {
		o := sandboxprofile.Operation{FirstLine: c.first, Lines: c.lines, MaxBytes: c.max}
		for _, r := range []io.Reader{strings.NewReader(file), iotest.OneByteReader(strings.NewReader(file))} {
			got, truncated, err := o.Select(r)
			if err != nil || string(got) != c.want || truncated != c.truncated {
				t.Errorf("%+v: %q, %v, %v; want %q, %v", c, got, truncated, err, c.want, c.truncated)
			}
		}
	}
}

func TestOperationReportsAReadError(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := sandboxprofile.Operation{MaxBytes: 10}.Select(iotest.ErrReader(broken))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestOperationAgreesWithSplittingTheWholeFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := []byte(rapid.StringMatching(`[ab\n]{0,60}`).Draw(t, "file"))
		o := sandboxprofile.Operation{
			FirstLine: rapid.Int64Range(0, 12).Draw(t, "first"),
			Lines:     rapid.Int64Range(0, 12).Draw(t, "lines"),
			MaxBytes:  rapid.Int64Range(0, 70).Draw(t, "max"),
		}
		lines := bytes.SplitAfter(file, []byte("\n"))
		lines = lines[min(max(int(o.FirstLine), 1)-1, len(lines)):]
		if o.Lines > 0 {
			lines = lines[:min(int(o.Lines), len(lines))]
		}
		want := bytes.Join(lines, nil)
		cut := int64(len(want)) > o.MaxBytes
		want = want[:min(int64(len(want)), o.MaxBytes)]

		got, truncated, err := o.Select(iotest.HalfReader(bytes.NewReader(file)))
		if err != nil || !bytes.Equal(got, want) || truncated != cut {
			t.Fatalf("%+v of %q: %q, %v, %v; want %q, %v", o, file, got, truncated, err, want, cut)
		}
	})
}
