// Package display writes what people read: the log's events, tables, sessions that are over, and what a process or a container is.
//
// Names, command lines and states are text of others. Text makes them fit for a terminal. No write of the log blocks, and
// none takes a thread (Sink): a log that nobody reads must not hold up a teardown.
package display
