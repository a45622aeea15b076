// Package server answers on the two sockets of a supervisor: agents ask on the one, operators
// decide on the other. It frames, bounds and orders what comes in, and knows nothing of what
// a call is: that is for what implements its interface Supervisor.
//
// Nothing that a peer sends can end the server or hold up another peer. Each socket has a table
// of methods of its own, and a handler of the one does not fit into the other.
package server
