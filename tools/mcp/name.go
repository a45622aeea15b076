package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// maxName is the longest name of a tool that the strictest of the models' interfaces
// accepts: 64 letters, digits, '_' and '-'.
const maxName = 64

// MaxServerName leaves room for the tool in maxName.
const MaxServerName = 24

// serverName has no '_', so that the first one of a tool's name ends the server's:
// "a_b_c" is the tool b_c of the server a, and of no other.
var serverName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9-]*$`)

// ValidServerName reports whether an MCP server can have this name.
func ValidServerName(name string) bool {
	return len(name) <= MaxServerName && serverName.MatchString(name)
}

// ServerOf is the name of the server that a tool would belong to, or "".
func ServerOf(tool string) string {
	server, rest, ok := strings.Cut(tool, "_")
	if !ok || rest == "" {
		return ""
	}
	return server
}

// ToolName is the name under which a server's tool is called: SERVER_TOOL. A name
// that is too long, or has other characters, ends with a part of its digest, so that
// two tools do not come to have one name.
func ToolName(server, tool string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && (letterOrDigit(byte(r)) || r == '_' || r == '-') {
			return r
		}
		return '_'
	}, tool)
	name := server + "_" + clean
	if clean == tool && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxName-len(mark))] + mark
}

func letterOrDigit(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// validOwnName is the form of a server's name for a tool: the protocol's, and the
// '/' that some use.
func validOwnName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		if b := name[i]; !letterOrDigit(b) && !strings.ContainsRune("_-./", rune(b)) {
			return false
		}
	}
	return true
}
