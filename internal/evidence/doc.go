// Package evidence finds out whether anybody can still reach a process, or reads what it writes. Package reap asks that of
// processes that may have been left behind.
//
// What cannot be read is unknown, and proves nothing.
package evidence
