// Package session keeps one small record on disk for every running session. With it, processes that outlive both anchor
// and supervisor can still be told from processes that are not ours.
//
// A record is a JSON file that is locked. The lock is a lease: the supervisor holds it (flock) for as long as it
// lives, and the kernel releases it however the supervisor ends. A free lock therefore proves a dead supervisor; a pid
// in a file would prove nothing. The record names processes by identity and the server by a redacted command line. It
// never holds the environment.
package session
