// Package live is about sessions whose supervisor lives: it lists them with what they use, and asks their supervisors to
// end them.
//
// A session lives as long as its lease is held (package session). Nothing here signals a server or anything that it
// started: a session ends by its own supervisor, which is asked by SIGTERM. What outlived its supervisor is for package
// reap.
package live
