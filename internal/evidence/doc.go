// Package evidence finds out whether anybody can still reach a process, or reads what it writes. Package reap asks that of
// processes that may have been left behind. Package front asks what an idle tree has open that its end would take away.
//
// What cannot be read is unknown, and proves nothing.
package evidence
