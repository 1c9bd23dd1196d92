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

// memoryWindow bounds what one read reads.
const memoryWindow = 64 << 10

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
	tids, err := pids(Path(s.PID, "task"))
	for _, tid := range tids {
		var b []byte
		if b, err = r.read(Path(s.PID, "task/"+strconv.Itoa(tid)+"/stat"), false); Starved(err) {
			break
		}
		if t, bad := parseStat(b); err == nil && bad == nil && t.State == 'D' {
			return true, nil
		}
	}
	if Starved(err) {
		return false, err
	}
	return false, nil
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

// memory reads cmdline or environ, at most so many bytes of it.
func (r *Reader) memory(s Stat, file string, limit int) ([]byte, error) {
	if cap(r.buf) < firstRead {
		r.buf = make([]byte, 0, firstRead)
	}
	b := r.buf[:0]
	for len(b) < limit {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
			r.buf = b
		}
		room := b[len(b):min(limit, cap(b), len(b)+memoryWindow)]
		n, err := r.readMemory(s, file, len(b), room)
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+n]
		if n < len(room) { // the last one, see read
			break
		}
	}
	return b, nil
}

// environ visits the assignments in the environment that a process was started with.
func (r *Reader) environ(s Stat, visit func(entry []byte)) error {
	b, err := r.memory(s, "environ", maxEnviron)
	if err == nil && len(b) == maxEnviron {
		err = fmt.Errorf("an environment of more than %d bytes", maxEnviron)
	}
	if err != nil {
		return err
	}
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		visit(entry)
	}
	return nil
}

// HasEnv reports whether the environment that the process was started with holds the assignment "NAME=value". A process
// may have overwritten it since; then the answer is false, and so it is with any error.
func (r *Reader) HasEnv(s Stat, assignment string) (has bool, err error) {
	err = r.environ(s, func(entry []byte) { has = has || string(entry) == assignment })
	return has, err
}

// Env reads the named variables of the environment that a process was started with. A variable that is not set is "".
func (r *Reader) Env(s Stat, names ...string) ([]string, error) {
	values := make([]string, len(names))
	err := r.environ(s, func(entry []byte) {
		for i, n := range names {
			if len(entry) > len(n) && entry[len(n)] == '=' && string(entry[:len(n)]) == n {
				values[i] = string(entry[len(n)+1:])
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Args reads the first 64 KiB of a process's command line; nil when there is none (kernel threads, zombies).
func (r *Reader) Args(s Stat) ([]string, error) {
	b, err := r.memory(s, "cmdline", maxArgs)
	if err != nil || len(b) == 0 {
		return nil, err
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
