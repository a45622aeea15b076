//go:build !unix

package config

import "io/fs"

const nonblock, nofollow = 0, 0

func ownerOf(fs.FileInfo) (int, bool) { return 0, false }
