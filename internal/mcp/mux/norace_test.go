//go:build !race

package mux

const underRace = false
