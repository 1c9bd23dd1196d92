//go:build unix && !linux

package session

import "golang.org/x/sys/unix"

// createUnnamed needs O_TMPFILE, which is Linux's.
func createUnnamed(string, string) (int, error) { return -1, unix.ENOSYS }
