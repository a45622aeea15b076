//go:build !linux

package changes

func attributesOf(int) string         { return "" }
func setAttributes(int, string) error { return nil }

func listOfDirectory(int) string               { return "" }
func dropLists(int)                            {}
func dropList(int)                             {}
func withoutList(mode uint32, _ string) uint32 { return mode }
func keepList(e, _ *Entry) *Entry              { return e }
