//go:build !linux

package assemble

import "io/fs"

// verdicts remember nothing where change times are not known to be kept.
type verdicts struct{}

func openVerdicts() *verdicts { return &verdicts{} }

func (*verdicts) Holds(_ string, _ fs.FileInfo, look func() bool) bool { return look() }

func (*verdicts) keep() {}
