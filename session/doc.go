// Package session keeps one small record on disk for every running session, so that what outlives both of its
// processes can still be told from what is none of ours.
//
// A record is a JSON file beside a lock file. The lock is a lease: the supervisor holds it (flock) for as long as it
// lives, and the kernel lets go of it however the supervisor ends. A free lock therefore proves a dead supervisor; a
// pid in a file would prove nothing. The record names processes by identity, the server by a redacted command line, and
// never holds the environment.
package session
