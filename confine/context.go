package confine

import (
	"context"
	"os"
)

// A Planted is something that an action left where a program of the user's would
// run or follow it.
type Planted struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// Kept is where it is now, "" if it was left where it is and only reported.
	Kept string `json:"kept,omitempty"`
}

type callKey struct{}

// ForCall names the call, SESSION/CALL, that what is prepared and run with the
// context belongs to. The name is noted where something is kept in quarantine.
func ForCall(ctx context.Context, call string) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// Frozen is a file that no program of a sandbox changes, renames or removes as long as
// the sandbox stands.
type Frozen struct {
	Path string // absolute, links resolved
	// Content, if set, is all that programs find there, with this mode. It is sealed, and
	// read once.
	Content *os.File
	Mode    os.FileMode
}

type frozenKey struct{}

// WithFrozen gives the frozen files of a sandbox that is prepared with the context. If one
// of them has a Content, the profile asks for a fresh sandbox. Where a sandbox has mounts,
// the content lies over the file; elsewhere the file must not be open for writing.
func WithFrozen(ctx context.Context, files []Frozen) context.Context {
	return context.WithValue(ctx, frozenKey{}, files)
}

func FrozenOf(ctx context.Context) []Frozen {
	files, _ := ctx.Value(frozenKey{}).([]Frozen)
	return files
}

type trustKey struct{}

// WithTrust gives the certificates, as PEM, that programs find in
// sandboxprofile.TrustBundle of a sandbox that is prepared with the context, if its
// profile ends TLS at the proxy.
func WithTrust(ctx context.Context, bundle []byte) context.Context {
	return context.WithValue(ctx, trustKey{}, bundle)
}

func TrustOf(ctx context.Context) []byte {
	bundle, _ := ctx.Value(trustKey{}).([]byte)
	return bundle
}

type sharesKey struct{}

// WithShares says which calls find in /tmp what a call of their session has left there: those
// with the same words, and no others. A sandbox serves no calls with other words.
func WithShares(ctx context.Context, words string) context.Context {
	return context.WithValue(ctx, sharesKey{}, words)
}

func SharesOf(ctx context.Context) string {
	words, _ := ctx.Value(sharesKey{}).(string)
	return words
}

func CallOf(ctx context.Context) string {
	call, _ := ctx.Value(callKey{}).(string)
	return call
}
