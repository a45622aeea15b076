package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The parts of TLS that are needed to see which server a client asks for: the
// record and handshake layers of RFC 8446, sections 4.1.2 and 5.1, which are those
// of every version since 1.0, and server_name of RFC 6066, section 3.
const (
	recordChangeCipherSpec = 20
	recordAlert            = 21
	recordHandshake        = 22
	recordHeartbeat        = 24
	maxRecord              = 1 << 14

	typeClientHello = 1
	maxHello        = 32 << 10 // bytes; post-quantum key shares make about 2000

	extServerName = 0
	extECH        = 0xfe0d // RFC 9849
	extESNI       = 0xffce // its predecessor in drafts

	alertUnexpected   = 10
	alertUnrecognized = 112 // unrecognized_name
)

// A hello has what a ClientHello says about the server that it wants.
type hello struct {
	name      string // of server_name; "" if there is none
	encrypted bool   // another name is in it, encrypted (ECH)
}

// alert is a fatal TLS alert, so that the client's error is not merely a closed
// connection.
func alert(description byte) []byte { return []byte{recordAlert, 3, 3, 0, 2, 2, description} }

// readHello reads records until they hold one complete ClientHello, and not a byte
// further. The hello may come in any number of records and segments. What is read
// is returned as it was, to be passed on.
func readHello(r io.Reader) (raw []byte, h hello, err error) {
	var message []byte
	for {
		payload, rec, err := readRecord(r)
		raw = append(raw, rec...)
		if err != nil {
			return raw, hello{}, fmt.Errorf("tls: %w", err)
		}
		message = append(message, payload...)
		body, whole, err := helloBody(message)
		if err == nil && whole {
			h, err = parseHello(body)
		}
		if err != nil || whole {
			return raw, h, wrap("tls: client hello", err)
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func readRecord(r io.Reader) (payload, raw []byte, err error) {
	head := make([]byte, 5)
	if n, err := io.ReadFull(r, head); err != nil {
		return nil, head[:n], err
	}
	length := int(binary.BigEndian.Uint16(head[3:]))
	switch {
	case head[0] != recordHandshake || head[1] != 3:
		return nil, head, errors.New("not a handshake record")
	case length == 0 || length > maxRecord:
		return nil, head, fmt.Errorf("the record has %d bytes", length)
	}
	raw = append(head, make([]byte, length)...)
	n, err := io.ReadFull(r, raw[5:])
	return raw[5:], raw[:5+n], err
}

// helloBody takes the handshake header off, once all of the message is there.
func helloBody(message []byte) (body []byte, whole bool, err error) {
	if message[0] != typeClientHello {
		return nil, false, errors.New("another handshake message comes first")
	}
	if len(message) < 4 {
		return nil, false, nil
	}
	length := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
	switch body = message[4:]; {
	case length > maxHello:
		return nil, false, fmt.Errorf("the message has %d bytes, more than %d", length, maxHello)
	case len(body) > length:
		return nil, false, errors.New("another handshake message follows it")
	}
	return body, len(body) == length, nil
}

// parseHello reads the body of a ClientHello. Whatever two parsers could read
// differently is an error: an extension that is there twice, bytes after the end.
func parseHello(body []byte) (hello, error) {
	c := cursor{rest: body}
	c.take(2 + 32) // version, random
	c.vector(1)    // session id
	c.vector(2)    // cipher suites
	c.vector(1)    // compression methods
	if !c.bad && c.empty() {
		return hello{}, nil // extensions are optional before TLS 1.3
	}
	extensions := cursor{rest: c.vector(2)}
	if c.bad || !c.empty() {
		return hello{}, errors.New("malformed")
	}
	return parseExtensions(extensions)
}

func parseExtensions(c cursor) (hello, error) {
	var h hello
	seen := map[uint16]bool{}
	for !c.empty() {
		kind, data := c.uint16(), c.vector(2)
		switch {
		case c.bad:
			return hello{}, errors.New("malformed extension")
		case seen[kind]:
			return hello{}, fmt.Errorf("extension %d appears twice", kind)
		}
		seen[kind] = true
		switch kind {
		case extECH, extESNI:
			h.encrypted = true
		case extServerName:
			name, err := parseServerName(data)
			if err != nil {
				return hello{}, err
			}
			h.name = name
		}
	}
	return h, nil
}

// parseServerName reads the list, which in practice and by RFC 6066 holds one name.
func parseServerName(data []byte) (string, error) {
	outer := cursor{rest: data}
	list := cursor{rest: outer.vector(2)}
	kind, name := list.take(1), list.vector(2)
	if outer.bad || list.bad || !outer.empty() || !list.empty() || kind[0] != 0 || len(name) == 0 {
		return "", errors.New("server_name is not one host name")
	}
	return string(name), nil
}

// A cursor reads bytes from the front. Reading too far sets bad, and yields
// nothing from then on.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) empty() bool { return len(c.rest) == 0 }

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.rest) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint16() uint16 {
	b := c.take(2)
	if c.bad {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

// vector reads a length of size 1 or 2 bytes and as many bytes after it.
func (c *cursor) vector(size int) []byte {
	n := 0
	for _, b := range c.take(size) {
		n = n<<8 | int(b)
	}
	return c.take(n)
}
