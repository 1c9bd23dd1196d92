// Package live is about sessions whose supervisor lives: it lists them with what they use, and asks their supervisors to
// end them or to start their servers again.
//
// A session lives as long as its lease is held (package session). Nothing here signals a server or anything that it
// started: a session ends by its own supervisor, which is asked by SIGTERM. What outlived its supervisor is for package
// reap. Another user's sessions are read and asked by a child that is that user.
//
//	seen.go, list.go      which sessions live, and what they use
//	session.go            one of them, and which of them a command means
//	front.go              those behind a front, of which the user sees one
//	kept.go               what a session that is over has kept
//	containers.go         what their engines have of them
//	users.go              those of other users
//	text.go               the lists of ps
//	watch.go, screen.go   ps --watch
//	stop.go, restart.go   asking for the end, and for another server
package live
