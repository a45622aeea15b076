// Package platform is the backend of the system that the program was built for. It
// chooses, and does nothing else.
package platform
