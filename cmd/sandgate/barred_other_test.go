//go:build !linux || !cgo

package main

// launchBarred is nothing where there are no such places.
func launchBarred() {}
