package relay

import (
	"errors"

	"golang.org/x/sys/unix"
)

// shortcut is a pipe of our own with the bytes that a pump has read. They can be passed on from there without being
// copied again. tee(2) puts the pages of one pipe into another as well, and splice(2) moves them on. Both ends of the
// pump must be pipes. The zero value is closed.
type shortcut struct {
	r, w int
	held int // bytes in it
	// grown says that a larger capacity was asked for.
	grown bool
}

// tee duplicates what is in the pipe, up to most bytes, and returns how much of it to read.
func (c *shortcut) tee(from, most int) int {
	if c.w == 0 {
		var p [2]int
		if unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			return most
		}
		c.r, c.w = p[0], p[1]
	}
	if most > bufferSize && !c.grown {
		c.grown = true
		growPipe(c.w, most)
	}
	n, err := unix.Tee(from, c.w, most, unix.SPLICE_F_NONBLOCK)
	if err != nil || n <= 0 {
		return most
	}
	c.held = int(n)
	return c.held
}

// splice passes on what can be passed on now, and returns how much. After an error the shortcut is closed.
func (c *shortcut) splice(to int) int {
	if c.held == 0 {
		return 0
	}
	n, err := unix.Splice(c.r, nil, to, nil, c.held, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
	switch {
	case err == nil && n > 0:
		c.held -= int(n)
		return int(n)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
	default:
		c.close()
	}
	return 0
}

// close drops what is in the shortcut.
func (c *shortcut) close() {
	if c.w > 0 {
		_ = unix.Close(c.r)
		_ = unix.Close(c.w)
	}
	*c = shortcut{}
}
