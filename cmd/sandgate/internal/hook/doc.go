// Package hook is the command hook: it answers the hooks of agent runtimes, and installs them.
package hook
