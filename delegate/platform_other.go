//go:build !linux

package delegate

import (
	"context"
	"errors"

	"mcp-tether/proc"
)

// Why a child's answer is not complete.
var (
	errTooMuch = errors.New("it found more than can be taken")
	errTime    = errors.New("it did not end in time")
)

// Run needs Linux.
func Run(context.Context, User, []string, int64) ([]byte, int, error) {
	return nil, -1, proc.ErrUnsupported
}

// Confine needs Linux.
func Confine() error { return proc.ErrUnsupported }
