// Package eventlog writes the events of a session to standard error or a file. No write blocks, and none takes a thread:
// a log that nobody reads must not hold up a teardown.
package eventlog
