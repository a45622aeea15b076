//go:build unix && !linux

package audit

import "os"

// Sync asks for F_FULLFSYNC on Darwin, where fsync(2) leaves data in the drive.
func syncData(f *os.File) error { return f.Sync() }
