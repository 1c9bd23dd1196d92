package proc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Life says whether the process of an identity lives.
type Life uint8

// The answers of Reader.Life. Only Dead proves an end.
const (
	Unknown Life = iota
	Alive
	Dead
)

func (l Life) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Life asks the kernel whether a process lives. The zero identity is Unknown. A process that /proc hides (hidepid)
// still answers kill(2), and is Unknown as well.
func (r *Reader) Life(id ID) Life {
	if id.Zero() {
		return Unknown
	}
	s, err := r.Stat(id.PID)
	switch {
	case err == nil && s.ID == id && !s.Dead():
		return Alive
	case err == nil:
		return Dead
	case errors.Is(err, ErrGone) && errors.Is(unix.Kill(id.PID, 0), unix.ESRCH):
		return Dead
	}
	return Unknown
}
