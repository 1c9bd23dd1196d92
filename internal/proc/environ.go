package proc

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// A process may tell the kernel that any part of its memory, even 64 GB, is its command line or its environment
// (PR_SET_MM_MAP in prctl(2)). execve(2) accepts far less: three quarters of 8 MiB for both together.
const (
	maxEnviron = 8 << 20
	// maxArgs bounds what is read of a command line: enough to recognise it. What is read is kept for every process.
	maxArgs = 64 << 10
	// environWindow is how much of an environment is in memory at a time. Only the beginning of a longer variable is seen.
	environWindow = 64 << 10
	// firstArgs is the size of the first buffer. Most command lines fit in it.
	firstArgs = 4 << 10
)

// memoryFile is a file that shows memory of a process. It is read here, or aside (aside_linux.go).
type memoryFile struct {
	name   string
	r      *Reader // its memory is nil if the file is read here
	fd     int
	offset int
}

func (r *Reader) openMemory(name string) (f memoryFile, err error) {
	f = memoryFile{name: name, r: r, fd: -1}
	if r.memory != nil {
		return f, nil
	}
	if f.fd, err = kernel.Open(name, unix.O_RDONLY); err != nil {
		r.unread = r.unread || Starved(err)
		return f, fmt.Errorf("open %s: %w", name, err)
	}
	return f, nil
}

// Unread reports whether memory of a process could not be read since it was asked last, because there was no descriptor
// or memory for a look (Starved).
func (r *Reader) Unread() bool {
	unread := r.unread
	r.unread = false
	return unread
}

func (f *memoryFile) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
}

// read reads on, once.
func (f *memoryFile) read(buf []byte) (n int, err error) {
	for again := true; again; again = errors.Is(err, unix.EINTR) {
		if f.r.memory != nil {
			n, err = f.r.memory.read(f.name, f.offset, buf)
		} else {
			n, err = unix.Read(f.fd, buf)
		}
	}
	if err != nil {
		f.r.unread = f.r.unread || Starved(err)
		return 0, fmt.Errorf("read %s: %w", f.name, err)
	}
	n = max(n, 0)
	f.offset += n
	return n, nil
}

// eachEnv visits the assignments in the environment that a process was started with.
func (r *Reader) eachEnv(pid int, visit func(entry []byte)) error {
	name := path(pid, "environ")
	f, err := r.openMemory(name)
	if err != nil {
		return err
	}
	defer f.close()
	if cap(r.buf) < environWindow {
		r.buf = make([]byte, 0, environWindow)
	}
	buf := r.buf[:0]
	for total := 0; total < maxEnviron; {
		room := environWindow - len(buf)
		n, err := f.read(buf[len(buf):environWindow])
		if err != nil {
			return err
		}
		total += n
		buf = eachEntry(buf[:len(buf)+n], visit)
		// A read that leaves room is the last one (kernel.ReadEntry).
		if n < room {
			if len(buf) > 0 {
				visit(buf)
			}
			return nil
		}
	}
	return fmt.Errorf("an environment of more than %d bytes", maxEnviron)
}

// eachEntry visits the complete entries. It moves an incomplete last one to the front and returns it. An entry that
// fills environWindow is visited as far as it was read. The remainder is taken for another entry, which begins with no
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
	if len(left) == environWindow {
		visit(left)
		// One byte stays, which begins no name, so that what follows is no beginning of a variable.
		left = left[len(left)-1:]
		left[0] = '='
	}
	return buf[:copy(buf, left)]
}

// HasEnv reports whether the environment that the process was started with holds the assignment "NAME=value". A process
// may have overwritten it since; then, and when it cannot be read, the answer is false.
func (r *Reader) HasEnv(pid int, assignment string) bool {
	found := false
	err := r.eachEnv(pid, func(entry []byte) { found = found || string(entry) == assignment })
	return err == nil && found
}

// Args reads the first 64 KiB of a process's command line; nil when there is none (kernel threads, zombies) or it
// cannot be read.
func (r *Reader) Args(pid int) []string {
	b, err := r.readStart(path(pid, "cmdline"), maxArgs)
	if err != nil || len(b) == 0 {
		return nil
	}
	return words(b)
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

// readStart reads the beginning of a file of a process.
func (r *Reader) readStart(name string, limit int) ([]byte, error) {
	f, err := r.openMemory(name)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if cap(r.buf) < firstArgs {
		r.buf = make([]byte, 0, firstArgs)
	}
	b := r.buf[:0]
	for len(b) < limit {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
			r.buf = b
		}
		room := min(limit, cap(b)) - len(b)
		n, err := f.read(b[len(b) : len(b)+room])
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+n]
		// A read that leaves room is the last one (kernel.ReadEntry).
		if n < room {
			return b, nil
		}
	}
	return b, nil
}
