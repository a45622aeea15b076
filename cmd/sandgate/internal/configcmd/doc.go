// Package configcmd is the command config: it creates, checks, compares, shows and trusts configuration files.
package configcmd
