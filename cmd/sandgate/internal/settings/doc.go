// Package settings loads the configuration for a command, and tells the person at sandgate
// which values have no effect.
package settings
