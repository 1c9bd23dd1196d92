package proc

import (
	"bytes"
	"syscall"
)

// Ahead is how many processes ReadAhead takes.
const Ahead = aheadFiles / 2

// aheadFiles is how many files the copy reads for one question. All share one window, and most fit in their parts of it.
const aheadFiles = 16

// aheads are the files that the copy has read before they were asked for.
type aheads struct {
	// asked are the files that the copy has yet to answer for.
	asked []memory
	// read are those of the last two questions.
	read [2][]aheadFile
}

// aheadFile is a file that was read, or why it could not be read.
type aheadFile struct {
	memory
	data  []byte
	errno syscall.Errno
}

// ReadAhead has the copy read the command lines and environments of up to Ahead processes, as far as they are wanted, and
// returns meanwhile. Args and Env then find them, for the processes of this call and of the one before. A question for each
// file would change processes twice, which took half of the time of a pass. It needs Apart. An error is no loss: what was not
// read ahead is read when it is asked for.
func (r *Reader) ReadAhead(processes []Stat, wanted func(i int) (args, env bool)) {
	r.takeAhead()
	if r.copy.hung > 0 {
		return // Each may cost the time that is given to one that keeps its readers waiting.
	}
	var asked []memory
	for i, s := range processes[:min(len(processes), Ahead)] {
		args, env := wanted(i)
		if args {
			asked = append(asked, memory{s.ID, Path(s.PID, "cmdline"), true})
		}
		if env {
			asked = append(asked, memory{s.ID, Path(s.PID, "environ"), true})
		}
	}
	if len(asked) > 0 && r.copy.ask(0, asked...) == nil {
		r.ahead.asked = asked
	}
}

// takeAhead takes the answer for what was asked last. What was read before the last time is forgotten.
func (r *Reader) takeAhead() {
	a := &r.ahead
	a.read[0], a.read[1] = a.read[1], a.read[0][:0]
	asked := a.asked
	if a.asked = nil; len(asked) == 0 || r.copy.answer() != nil {
		return
	}
	rest, room := r.copy.reply.data[:], int64(memoryWindow/len(asked))
	for i, m := range asked {
		n := r.copy.reply.counts[i]
		switch {
		case n < 0:
			a.read[1] = append(a.read[1], aheadFile{m, nil, syscall.Errno(-n)})
		case n < room: // A read that leaves room is the last one (kernel.ReadEntry).
			a.read[1] = append(a.read[1], aheadFile{m, bytes.Clone(rest[:n]), 0})
		}
		rest = rest[max(n, 0):]
	}
}

// foundAhead finds a file that was read ahead, and fits into buf with room.
func (r *Reader) foundAhead(m memory, buf []byte) (n int, found bool, err error) {
	for _, read := range r.ahead.read {
		for i := range read {
			f := &read[i]
			switch {
			case f.memory != m || len(f.data) >= len(buf):
			case f.errno != 0:
				return 0, true, f.errno
			default:
				return copy(buf, f.data), true, nil
			}
		}
	}
	return 0, false, nil
}
