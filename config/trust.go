package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// TrustDigest covers what a person trusts in a file: its bytes, its location, and where its
// paths lead. Changing the file, copying it elsewhere or changing a link in one of its roots
// voids the trust.
func (c *Config) TrustDigest() string {
	h := sha256.New()
	fmt.Fprintf(h, "sandgate workspace file, version 1\n%q\n%q\n", c.File, c.Digest)
	for _, p := range c.places() {
		fmt.Fprintf(h, "%q\n", p)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// places are the paths that the file names, free of links.
func (c *Config) places() []string {
	var list []string
	for _, p := range c.Sandbox.Paths {
		list = append(list, p.Name, p.Root)
	}
	others := c.OwnFiles()
	slices.Sort(others)
	return append(list, others...)
}
