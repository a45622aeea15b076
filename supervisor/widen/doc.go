// Package widen finds the one thing more that a person could add to a plan whose program was refused it.
package widen
