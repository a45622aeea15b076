// Package assemble makes a supervisor of a configuration: it opens the log, the remembered
// answers and what calls have changed, derives the profiles, builds the tools and finds the
// backend. The command line uses it, and so can any program that embeds sandgate: Load, Start,
// and then the methods of the supervisor. See the example.
//
// It is the one place where a configuration becomes a supervisor. Nothing registers itself:
// a supervisor can do only what is built here.
package assemble
