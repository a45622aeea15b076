//go:build !linux

package serve

func dropProgramPages() {}
