// Package linux builds sandboxes on Linux: with bubblewrap, Landlock and seccomp
// (Bwrap), or with Landlock and seccomp alone where user namespaces are barred
// (Landlock). Package sandboxinit runs inside both.
package linux
