package serve

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyUnchangedPagesAreDropped(t *testing.T) {
	const smaps = `00400000-00b5b000 r-xp 00002000 fd:00 247849                             /usr/bin/sandgate
Size:               7532 kB
Private_Dirty:      2000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me 
00b5d000-015d5000 r--p 0075d000 fd:00 247849                             /usr/bin/sandgate
Anonymous:             0 kB
015d6000-015d7000 r--p 011d5000 fd:00 247849                             /usr/bin/sandgate
Anonymous:             4 kB
015d7000-016d0000 rw-p 011d6000 fd:00 247849                             /usr/bin/sandgate
Anonymous:             0 kB
016d0000-03600000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
7f19d1b00000-7f19d1b28000 r-xp 00000000 fd:00 2                          /usr/lib/libc.so.6
Anonymous:             0 kB
`
	want := []span{{0x400000, 0xb5b000}, {0xb5d000, 0x15d5000}}
	if got := unchanged(strings.NewReader(smaps), "/usr/bin/sandgate"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	unsaid := strings.ReplaceAll(smaps, "Anonymous:", "Something:")
	if got := unchanged(strings.NewReader(unsaid), "/usr/bin/sandgate"); got != nil {
		t.Errorf("of a kernel that does not say what is the process's own: %x", got)
	}
	if got := unchanged(strings.NewReader(smaps), "/usr/bin/other"); got != nil {
		t.Errorf("of another program: %x", got)
	}
}

// TestDroppedPagesComeBack: this program goes on, and has fewer of its pages mapped.
func TestDroppedPagesComeBack(t *testing.T) {
	before := programPages(t)
	dropProgramPages()
	if after := programPages(t); after >= before {
		t.Errorf("%d kB of files were mapped, and %d after", before, after)
	}
}

// programPages is RssFile of proc_pid_status(5), in kB.
func programPages(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kB, err := strconv.Atoi(strings.Fields(rest + " none")[0])
	if err != nil {
		t.Fatal(err)
	}
	return kB
}
