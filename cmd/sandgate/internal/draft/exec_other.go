//go:build !linux

package draft

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func ownMounts() *syscall.SysProcAttr { return &syscall.SysProcAttr{} } // there are no drafts: see Draft.Mount

func execAgain([]string) error { return errors.ErrUnsupported }

func DupOnto(from, to int) error { return unix.Dup2(from, to) }
