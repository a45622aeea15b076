// Package undo is the commands log and undo: what calls changed in a workspace, and putting that back.
package undo
