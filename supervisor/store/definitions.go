package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// Definitions is a directory with the definitions of MCP tools that were let through, a file for each tool. A server
// mostly changes when it is updated, which is between two starts; several supervisors may run at once.
type Definitions string

func (d Definitions) file(server, tool string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", server, tool))
	return filepath.Join(string(d), hex.EncodeToString(sum[:]))
}

// unreadable is no tool's definition: what cannot be read has changed.
const unreadable = "unreadable"

// Get gives the digest of a tool's definition, "" if none is known.
func (d Definitions) Get(server, tool string) string {
	b, err := os.ReadFile(d.file(server, tool))
	var k kept
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil, json.Unmarshal(b, &k) != nil, k.Definition == "":
		return unreadable
	}
	return k.Definition
}

// kept is the content of a file. Only the definition counts; the rest is for people who look.
type kept struct{ Server, Tool, Definition string }

// Put keeps the digest of a tool's definition.
func (d Definitions) Put(server, tool, digest string) error {
	if d.Get(server, tool) == digest {
		return nil
	}
	b, err := json.Marshal(kept{server, tool, digest})
	if err == nil {
		err = os.MkdirAll(string(d), 0o700)
	}
	if err == nil {
		err = atomicfile.WriteFile(d.file(server, tool), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the definition of a tool: %w", err)
	}
	return nil
}
