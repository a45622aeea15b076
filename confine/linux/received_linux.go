package linux

import (
	"io"
	"net"
	"os"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"golang.org/x/sys/unix"
)

// received is what init says, with the descriptors that came beside it.
type received struct {
	frame wire.Frame
	err   error
	files []*os.File
}

// fileReader reads a Unix socket and keeps the descriptors that come with the
// bytes. Go marks them close-on-exec.
type fileReader struct {
	conn  *net.UnixConn
	files []*os.File
}

func (r *fileReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*wire.MaxSockets))
	n, oobn, flags, _, err := r.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		r.keep(oob[:oobn])
	}
	if err == nil && flags&unix.MSG_CTRUNC != 0 { // the kernel found no room for one in our table
		return 0, &confine.Shortage{Op: "take a descriptor of the sandbox", Err: unix.EMFILE}
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

func (r *fileReader) keep(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "egress"))
		}
	}
}

func (r *fileReader) take() []*os.File {
	files := r.files
	r.files = nil
	return files
}

func (r *fileReader) drop() { closeFiles(r.files) }
