// Package undo keeps what a call changes in its workspaces, so that a person can put it back, and says
// in words what cannot be kept.
package undo
