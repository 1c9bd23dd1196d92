package session

import (
	"encoding/hex"
	"hash/fnv"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// NewID gives a random session id of 16 hexadecimal digits.
func NewID() string {
	var b [8]byte
	random(b[:])
	return hex.EncodeToString(b[:])
}

// ValidID reports whether id has the form that NewID gives; it becomes part of file names.
func ValidID(id string) bool {
	if len(id) != 16 {
		return false
	}
	_, err := hex.DecodeString(id)
	return err == nil
}

// random fills b. crypto/rand would do as well, but starts a timer, and with it the runtime's poller. Where the kernel
// gives nothing (a filter of system calls), the time and the pid make an id that no other process here has.
func random(b []byte) {
	for range randomTries {
		if n, err := unix.Getrandom(b, 0); err == nil && n == len(b) {
			return
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(time.Now().String()))
	_, _ = h.Write([]byte{byte(os.Getpid()), byte(os.Getpid() >> 8), byte(os.Getpid() >> 16), byte(os.Getppid())})
	copy(b, h.Sum(nil))
}

// randomTries bounds the attempts: a signal may interrupt one.
const randomTries = 8
