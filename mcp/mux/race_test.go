//go:build race

package mux

// raceDetector says that all of this takes ten times as long.
const raceDetector = true
