//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func ownMounts() *syscall.SysProcAttr { return nil }

func execAgain([]string) error { return errors.ErrUnsupported }
