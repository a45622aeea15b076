//go:build cgo

package seccomp

import _ "embed"

//go:embed shipped/arm64.bpf
var shipped string
