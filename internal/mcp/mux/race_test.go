//go:build race

package mux

// underRace: the race detector makes a history twenty times as slow.
const underRace = true
