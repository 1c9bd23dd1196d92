package proc

import "syscall"

// Ahead is of how many processes ReadAhead takes both files.
const Ahead = aheadFiles / 2

// aheadFiles is how many files the copy reads for one question. They share one window, in which there is room for most.
const aheadFiles = 16

// aheads are the answers for files that were not asked for yet.
type aheads struct {
	// asked are the files that the copy has yet to answer for.
	asked []Memory
	// last is the last answer, and before the one before it; nil where there is none.
	last, before *answered
}

// answered is a reply with what was asked.
type answered struct {
	files []Memory
	reply
}

// Files adds the files of a process that ReadAhead is to read: its command line, its environment, or both. Not
// those of a process that has kept a reader waiting.
func (r *Reader) Files(to []Memory, s Stat, args, env bool) []Memory {
	for _, file := range [...]struct {
		name   string
		wanted bool
	}{{cmdline, args}, {environ, env}} {
		if m, err := r.memoryOf(s, file.name); file.wanted && err == nil {
			to = append(to, m)
		}
	}
	return to
}

// ReadAhead has the copy read files, aheadFiles at most, and returns meanwhile. Args and Env then find what they hold, for the
// files of this call and of the one before. A question for each file would change processes twice, which took a quarter of a
// pass. It needs Apart. An error is no loss: what was not read ahead is read when it is asked for.
func (r *Reader) ReadAhead(files []Memory) {
	r.takeAhead()
	if r.copy.hung > 0 {
		return // Each may cost the time that is given to one that keeps its readers waiting.
	}
	if len(files) > 0 && r.copy.ask(0, files) == nil {
		r.ahead.asked = files
	}
}

// takeAhead takes the answer for what was asked last. What was read before the last time is forgotten.
func (r *Reader) takeAhead() {
	a := &r.ahead
	a.last, a.before = a.before, a.last
	if a.last == nil {
		a.last = new(answered)
	}
	a.last.files = nil
	if len(a.asked) > 0 && r.copy.answer() == nil {
		a.last.files, a.last.reply = a.asked, r.copy.reply
	}
	a.asked = nil
}

// foundAhead finds a file that was read ahead, and fits into buf with room.
func (r *Reader) foundAhead(m Memory, buf []byte) (n int, found bool, err error) {
	for _, a := range [...]*answered{r.ahead.last, r.ahead.before} {
		if a == nil {
			continue
		}
		rest := a.data[:]
		for i, file := range a.files {
			n := int(a.counts[i])
			if file != m {
				rest = rest[max(n, 0):]
				continue
			}
			if n < 0 {
				return 0, true, syscall.Errno(-n)
			}
			// A read that leaves room is the last one (kernel.ReadEntry).
			return copy(buf, rest[:n]), n < min(len(rest), len(buf)), nil
		}
	}
	return 0, false, nil
}
