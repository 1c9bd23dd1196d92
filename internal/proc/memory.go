package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel reads cmdline and environ from the memory of a process. It needs the lock of that memory, and may have to fetch a
// page of it. With a file system that does not answer, either may take for ever, and only SIGKILL ends the wait.
//
// A thread in state D is the sign: it may hold the lock. Such a process is not read. The sign may be missing, as the lock may be
// held by a process that is no thread of this one. Reader.Apart does without the sign.

// ErrKeptWaiting says that the memory of a process could not be read in time: the process keeps its readers waiting.
var ErrKeptWaiting = errors.New("the process keeps its readers waiting")

const (
	// memoryWindow is how much of an environment is in memory at a time. Only the beginning of a longer variable is seen.
	memoryWindow = 64 << 10
	// firstArgs is the size of the first buffer. Most command lines fit in it.
	firstArgs = 4 << 10
)

// readMemory reads once, from an offset on.
func (r *Reader) readMemory(s Stat, file string, offset int, buf []byte) (n int, err error) {
	name := Path(s.PID, file)
	switch {
	case r.waiting[s.ID]:
		err = ErrKeptWaiting
	case r.Apart:
		n, err = r.readApart(name, offset, buf)
	case offset == 0: // What was read before would be overwritten by awaitReadable.
		err = r.awaitReadable(s)
	}
	if err == nil && !r.Apart {
		n, err = readAt(name, offset, buf)
	}
	if errors.Is(err, ErrKeptWaiting) {
		if r.waiting == nil {
			r.waiting = map[ID]bool{}
		}
		r.waiting[s.ID] = true
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return n, nil
}

// patience is how many pauses a process may keep us waiting.
func (r *Reader) patience() int {
	if len(r.waiting) > 0 {
		return 1
	}
	return memoryPauses
}

// readApart has a goroutine read, and leaves that behind if it takes too long. Its buffer is left to it.
func (r *Reader) readApart(name string, offset int, buf []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	if r.apart == nil {
		r.apart = make([]byte, memoryWindow)
	}
	own, done := r.apart[:min(len(buf), memoryWindow)], make(chan result, 1)
	go func() {
		n, err := readAt(name, offset, own)
		done <- result{n, err}
	}()
	for range r.patience() {
		select {
		case got := <-done:
			return copy(buf, own[:got.n]), got.err
		case <-time.After(memoryPause):
		}
	}
	r.apart = nil
	return 0, ErrKeptWaiting
}

// awaitReadable waits until no thread of a process is in state D, which the disk may be the reason of. It is a look at one moment.
func (r *Reader) awaitReadable(s Stat) error {
	for n := r.patience(); ; n-- {
		waits, err := r.inStateD(s)
		if err != nil || !waits {
			return err
		}
		if n == 0 {
			return ErrKeptWaiting
		}
		Sleep(memoryPause)
		if s, err = r.Stat(s.PID); err != nil {
			return err
		}
	}
}

// inStateD reports whether a thread of a process is in state D, or may be.
func (r *Reader) inStateD(s Stat) (bool, error) {
	if s.Threads <= 1 {
		return s.State == 'D', nil
	}
	none, err := r.eachThread(s.PID, func(state byte) bool { return state != 'D' })
	if Starved(err) {
		return false, err
	}
	return err == nil && !none, nil
}

func readAt(name string, offset int, buf []byte) (int, error) {
	fd, err := Open(name, unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Pread(fd, buf, int64(offset))
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// eachEnv visits the assignments in the environment that a process was started with.
func (r *Reader) eachEnv(s Stat, visit func(entry []byte)) error {
	if cap(r.buf) < memoryWindow {
		r.buf = make([]byte, 0, memoryWindow)
	}
	window := r.buf[:memoryWindow]
	held := 0 // bytes of an entry that is not complete yet
	for total := 0; total < maxEnviron; {
		n, err := r.readMemory(s, "environ", total, window[held:])
		if err != nil {
			return err
		}
		room := len(window) - held
		total += n
		held = len(eachEntry(window[:held+n], visit))
		// A read that leaves room is the last one (ReadEntry).
		if n < room {
			if held > 0 {
				visit(window[:held])
			}
			return nil
		}
	}
	return fmt.Errorf("an environment of more than %d bytes", maxEnviron)
}

// eachEntry visits the complete entries. It moves an incomplete last one to the front and returns it. An entry that
// fills memoryWindow is visited as far as it was read. The remainder is taken for another entry, which begins with no
// name of ours.
func eachEntry(buf []byte, visit func(entry []byte)) (rest []byte) {
	left := buf
	for {
		entry, after, complete := bytes.Cut(left, []byte{0})
		if !complete {
			break
		}
		visit(entry)
		left = after
	}
	if len(left) == memoryWindow {
		visit(left)
		// One byte stays, which begins no name, so that what follows is no beginning of a variable.
		left = left[len(left)-1:]
		left[0] = '='
	}
	return buf[:copy(buf, left)]
}

// HasEnv reports whether the environment that the process was started with holds the assignment "NAME=value". A process
// may have overwritten it since; then the answer is false, and so it is with any error.
func (r *Reader) HasEnv(s Stat, assignment string) (has bool, err error) {
	err = r.eachEnv(s, func(entry []byte) { has = has || string(entry) == assignment })
	return has && err == nil, err
}

// Env reads the named variables of the environment that a process was started with. A variable that is not set is "".
func (r *Reader) Env(s Stat, names ...string) ([]string, error) {
	values := make([]string, len(names))
	err := r.eachEnv(s, func(entry []byte) { pick(entry, names, values) })
	if err != nil {
		return nil, err
	}
	return values, nil
}

// pick notes the value of an assignment to one of the names.
func pick(entry []byte, names, values []string) {
	for i, n := range names {
		if len(entry) > len(n) && entry[len(n)] == '=' && string(entry[:len(n)]) == n {
			values[i] = string(entry[len(n)+1:])
		}
	}
}

// Args reads the first 64 KiB of a process's command line; nil when there is none (kernel threads, zombies).
func (r *Reader) Args(s Stat) ([]string, error) {
	if cap(r.buf) < firstArgs {
		r.buf = make([]byte, 0, firstArgs)
	}
	b := r.buf[:0]
	for len(b) < maxArgs {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
			r.buf = b
		}
		room := b[len(b):min(maxArgs, cap(b))]
		n, err := r.readMemory(s, "cmdline", len(b), room)
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+n]
		if n < len(room) {
			break
		}
	}
	if len(b) == 0 {
		return nil, nil
	}
	return words(b), nil
}

// words splits a command line.
func words(b []byte) []string {
	b = bytes.TrimSuffix(b, []byte{0})
	out := make([]string, 0, bytes.Count(b, []byte{0})+1)
	for a := range bytes.SplitSeq(b, []byte{0}) {
		out = append(out, string(a))
	}
	return out
}

// Path gives /proc/PID/name.
func Path(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// leastPeak is the peak below which PeakOfChildren says nothing, in bytes. A child counts with what we have until it executes
// its program (getrusage(2)), and processes of ours are children, too.
const leastPeak = 16 << 20

// PeakOfChildren is the most resident memory that one of the processes had which were waited for, by us or by one of them,
// in bytes. It is 0 if that is not known.
func PeakOfChildren() uint64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil || u.Maxrss < leastPeak>>10 {
		return 0
	}
	return uint64(u.Maxrss) << 10
}
