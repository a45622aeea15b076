// Package ruleservice is where commands look at rules and change them: the running
// supervisor's, through its operator socket, or those of the files alone.
package ruleservice
