// Package batch is the order of the calls of one turn: all are asked about before the first has ended,
// each starts when those before it have ended, and a rejection can end the rest.
package batch
