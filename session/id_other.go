//go:build !linux

package session

import "crypto/rand"

// random fills b. Read never fails (crypto/rand, Go 1.24).
func random(b []byte) { _, _ = rand.Read(b) }
