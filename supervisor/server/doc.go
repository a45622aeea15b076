// Package server answers on the two sockets of a supervisor: agents ask on the one, operators
// decide on the other. It frames, bounds and orders incoming messages, and does not know what
// a call is: the implementation of its interface Supervisor does.
//
// Nothing that a peer sends can end the server or hold up another peer. Each socket has a table
// of methods of its own, and a handler of the one does not fit into the other.
package server
