// Package gitsign signs commits and tags of git for programs that must not see the key.
//
// git hands what it wants signed to a program (gpg.ssh.program, gpg.program). In a sandbox
// that program is sandgate itself, which sends it as a [Request] to the supervisor. What
// crosses is the whole object and not its hash, as the protocol of ssh-agent has it, so that
// [Parse] can tell what a signature would be good for. There is no field for a namespace or
// a program: a signature is git's, of a commit or a tag, or it is refused.
package gitsign

// The service of the egress proxy that requests are sent to.
const (
	Host    = "git-signing"
	Service = "sign"
)

// Format is gpg.format.
type Format string

const (
	SSH     Format = "ssh"
	OpenPGP Format = "openpgp"
)

// MaxObject bounds what is signed, in bytes.
const MaxObject = 1 << 20

// A Request is one object to sign: JSON, the only thing on its connection.
type Request struct {
	Format Format `json:"format"`
	// Key is the key as git names it to its program: the path of a file, or an id. KeyText is
	// the content of that file, if git has made it from a key in its settings.
	Key     string `json:"key"`
	KeyText string `json:"key_text,omitempty"`
	Object  []byte `json:"object"`
}

// A Reply has a signature, or in Error the reason why there is none.
type Reply struct {
	Signature []byte `json:"signature,omitempty"`
	// Status is gpg's other output for git.
	Status []byte `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}
