package broker

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzNetlink: whatever is asked, the answer is one that the standard library reads, of kinds
// that tell and do not ask, and no longer than a bound.
func FuzzNetlink(f *testing.F) {
	request := func(kind, flags uint16, body ...byte) []byte {
		m := binary.NativeEndian.AppendUint32(nil, uint32(netlinkHeader+len(body)))
		m = binary.NativeEndian.AppendUint16(m, kind)
		m = binary.NativeEndian.AppendUint16(m, flags)
		return append(append(m, 7, 0, 0, 0, 0, 0, 0, 0), body...)
	}
	for _, kind := range []uint16{unix.RTM_GETLINK, unix.RTM_GETADDR, unix.RTM_GETROUTE, unix.RTM_NEWLINK, unix.NLMSG_DONE} {
		f.Add(request(kind, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, make([]byte, 4)...))
		f.Add(request(kind, unix.NLM_F_REQUEST, make([]byte, unix.SizeofIfInfomsg)...))
	}
	named := attribute(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, []byte("lo\x00"))
	f.Add(request(unix.RTM_GETLINK, unix.NLM_F_REQUEST, named...))
	f.Add(append(request(unix.RTM_GETLINK, unix.NLM_F_REQUEST, named[:len(named)-2]...), request(unix.RTM_GETADDR, unix.NLM_F_DUMP)...))
	f.Fuzz(func(t *testing.T, question []byte) {
		answer := asker{port: 5}.answers(question)
		if most := maxAnswered * 1024; len(answer) > most {
			t.Fatalf("%d bytes answer %d", len(answer), len(question))
		}
		list, err := syscall.ParseNetlinkMessage(answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			switch m.Header.Type {
			case unix.RTM_NEWLINK, unix.RTM_NEWADDR:
				if _, err := syscall.ParseNetlinkRouteAttr(&m); err != nil {
					t.Error(err)
				}
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			default:
				t.Errorf("it has a message of kind %d", m.Header.Type)
			}
			if m.Header.Pid != 5 {
				t.Errorf("it is for %d", m.Header.Pid)
			}
		}
	})
}

// TestAnAskerIsItsSocket: the number of a socket that has gone, which another may have, is
// nobody's, and what it has left over goes with the next one.
func TestAnAskerIsItsSocket(t *testing.T) {
	b := &Broker{}
	defer b.askers.dismiss()
	pair := func() (int, uint64) {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.attend(p[0], p[1], 1); err != nil {
			t.Fatal(err)
		}
		return p[0], b.askers.list[len(b.askers.list)-1].ino
	}
	fd, ino := pair()
	if _, ok := b.askers.of(ino); !ok {
		t.Error("one that is there is not known")
	}
	unix.Close(fd)
	if _, ok := b.askers.of(ino); ok {
		t.Error("one that has gone is known")
	}
	for range maxAskers - 1 {
		fd, _ := pair()
		defer unix.Close(fd)
	}
	fd, _ = pair()
	defer unix.Close(fd)
	if n := len(b.askers.list); n != maxAskers {
		t.Errorf("%d are kept", n)
	}
}
