// Package profilecmd is the command profile: what profiles there are, what follows from a configuration, and what it compiles to.
package profilecmd
