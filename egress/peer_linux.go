package egress

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// socketTables list the TCP sockets of our network, each with its user (proc_net(5)). A
// connection over IPv4 is in the second if its program made a socket for both.
var socketTables = [...]string{"/proc/net/tcp", "/proc/net/tcp6"}

var errNoSocket = errors.New("the kernel does not report who connected")

// tableReads is how often the tables are read: a line can be missed while others come
// and go.
const tableReads = 3

// userOf returns the user whose socket is at the other end of a connection within this machine.
// It finds no user if that socket is already closed, because the kernel would report root.
func userOf(peer, here netip.AddrPort) (uid int, err error) {
	for range tableReads {
		for _, table := range socketTables {
			uid, err = socketUser(table, peer, here)
			if !errors.Is(err, errNoSocket) && !errors.Is(err, fs.ErrNotExist) {
				return uid, err
			}
		}
	}
	return 0, errNoSocket
}

// socketUser finds the user of the socket with these two ends in a table.
func socketUser(table string, local, remote netip.AddrPort) (int, error) {
	f, err := os.Open(table)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if uid, ok := socketLine(lines.Text(), local, remote); ok {
			return uid, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("egress: read %s: %w", table, err)
	}
	return 0, errNoSocket
}

// socketLine reads one line, and reports whether it is that socket's, still held by a
// program.
func socketLine(line string, local, remote netip.AddrPort) (uid int, ok bool) {
	const fieldLocal, fieldRemote, fieldUser, fieldInode = 1, 2, 7, 9
	fields := strings.Fields(line)
	if len(fields) <= fieldInode || fields[fieldInode] == "0" ||
		tableAddress(fields[fieldLocal]) != local || tableAddress(fields[fieldRemote]) != remote {
		return 0, false
	}
	uid, err := strconv.Atoi(fields[fieldUser])
	return uid, err == nil
}

// tableAddress reads an address as the tables have it: 32-bit words in the byte order of
// the machine, in hexadecimal, and the port.
func tableAddress(s string) netip.AddrPort {
	address, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(address)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n))
}
