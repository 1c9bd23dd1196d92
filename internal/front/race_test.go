//go:build race

package front

// underRace: the race detector makes a play many times as slow.
const underRace = true
