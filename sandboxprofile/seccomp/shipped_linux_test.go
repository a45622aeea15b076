//go:build linux && cgo

package seccomp

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "rewrite the shipped programs")

// shippedBy is the release of libseccomp that made the shipped programs. Another one
// may order a program otherwise, and know calls that this one had no name for.
const shippedBy = "2.5.4"

func TestShippedProgramIsWhatLibseccompMakes(t *testing.T) {
	major, minor, micro := lib.GetLibraryVersion()
	same := fmt.Sprintf("%d.%d.%d", major, minor, micro) == shippedBy
	base := func(arch string) ([]byte, error) { return filterFor(arch, nil) }
	served := func(arch string) ([]byte, error) { return servedFor(arch, nil) }
	broker := func(arch string) ([]byte, error) { return brokerFor(arch, nil) }
	for file, x := range map[string]struct {
		arch lib.ScmpArch
		make func(string) ([]byte, error)
	}{
		"shipped/amd64.bpf": {lib.ArchAMD64, base}, "shipped/arm64.bpf": {lib.ArchARM64, base},
		"shipped/served-amd64.bpf": {lib.ArchAMD64, served}, "shipped/served-arm64.bpf": {lib.ArchARM64, served},
		"shipped/broker-amd64.bpf": {lib.ArchAMD64, broker}, "shipped/broker-arm64.bpf": {lib.ArchARM64, broker},
		"shipped/ceiling-amd64.bpf": {lib.ArchAMD64, ceilingFor}, "shipped/ceiling-arm64.bpf": {lib.ArchARM64, ceilingFor},
	} {
		// libseccomp finds a call of another architecture by its name on this one, and
		// amd64 has calls that no later architecture has.
		if x.arch == lib.ArchAMD64 && runtime.GOARCH != "amd64" {
			continue
		}
		made, err := x.make(x.arch.String())
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if !same {
				t.Fatalf("this is libseccomp %d.%d.%d, want %s; or say here that it is another now", major, minor, micro, shippedBy)
			}
			if err := os.WriteFile(file, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if same && !bytes.Equal(b, made) {
			t.Errorf("%s is not what the groups and the allow-list say; `make golden` rewrites it", file)
		}
		t.Run(file, func(t *testing.T) { noLooser(t, interpret(t, b), interpret(t, made), architectures[x.arch]) })
	}
	if *update {
		return // what is embedded is the file as it was
	}
	if got, err := Filter(nil); err != nil || shipped != "" && string(got) != shipped {
		t.Errorf("Filter gives another program than the shipped one: %v", err)
	}
	if got, err := ServedFilter(nil); err != nil || shippedServed != "" && string(got) != shippedServed {
		t.Errorf("ServedFilter gives another program than the shipped one: %v", err)
	}
	if got, err := BrokerFilter(nil); err != nil || shippedBroker != "" && string(got) != shippedBroker {
		t.Errorf("BrokerFilter gives another program than the shipped one: %v", err)
	}
	if got, err := CeilingFilter(); err != nil || shippedCeiling != "" && string(got) != shippedCeiling {
		t.Errorf("CeilingFilter gives another program than the shipped one: %v", err)
	}
}

// noLooser: the shipped program answers what the one does that is made here, or ENOSYS.
func noLooser(t *testing.T, shipped, made machine, arch uint32) {
	values := interesting()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list []uint64) uint64 { return list[random.IntN(len(list))] }
	arg := func() uint64 { return pick(values) | pick(garbage) }
	for nr := range uint32(600) {
		for range 100 {
			args := [6]uint64{arg(), arg(), arg(), arg(), arg(), arg()}
			got, want := shipped.run(t, nr, arch, args), made.run(t, nr, arch, args)
			if got != want && got != unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS) {
				t.Fatalf("call %d %#x: the shipped program gives %#x, libseccomp's %#x", nr, args, got, want)
			}
		}
	}
}
