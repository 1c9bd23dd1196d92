//go:build unix && !linux

package session

import "errors"

// ErrUnclear says that nothing tells whether a session lives.
var ErrUnclear = errors.New("nothing tells whether it lives")

// Alive is Held. Only Linux has sessions, and tells a process from a later one of its number.
func (d *Directory) Alive(id string) (bool, error) { return d.Held(id) }
