// Package toolchains finds what the programs on a person's PATH need, so that they run in
// a sandbox as they do outside of it.
//
// It reads the machine and decides nothing: what it finds are grants to read and to
// execute, each with a reason, as a preset has them. Known toolchains are in a table
// (table.go). One general rule covers the rest: a directory of PATH is shown with the
// tree that it belongs to, but never the home directory, or one that holds the workspace,
// several projects or hidden files. Pointers that a tool could have written, such as a
// virtual environment in the workspace, lead to trees of the table and nowhere else.
package toolchains
