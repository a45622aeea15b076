// Package pathcalls makes a seeded sequence of the system calls that name files, and
// writes down what the kernel answered to each. A test runs it twice, confined and not,
// on two copies of a tree, and compares the lines and the trees.
package pathcalls
