//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func ownMounts() *syscall.SysProcAttr { return &syscall.SysProcAttr{} } // there are no drafts: see Draft.Mount

func execAgain([]string) error { return errors.ErrUnsupported }
