//go:build !race

package mux

const raceDetector = false
