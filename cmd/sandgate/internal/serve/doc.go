// Package serve is the commands that keep a supervisor running: serve, and mcp serve and wrap.
package serve
