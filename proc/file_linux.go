package proc

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// readShort reads a file that the kernel gives whole in one read if it fits: stat, cmdline and environ of a process. A
// read that leaves room is the last; that saves one in two, which counts for ten thousand processes. st, if not nil,
// gets the file's status.
func readShort(path string, buf []byte, st *unix.Stat_t) ([]byte, error) {
	fd, err := openRetry(path, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if st != nil {
		if err := unix.Fstat(fd, st); err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
	}
	buf = buf[:0]
	for {
		room := cap(buf) - len(buf)
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		buf = buf[:len(buf)+max(n, 0)]
		if n < room {
			return buf, nil
		}
		buf = append(buf, 0)[:len(buf)]
	}
}

// readFile appends the content of a small kernel file to buf[:0] and returns it.
func readFile(path string, buf []byte) ([]byte, error) {
	fd, err := openRetry(path, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if n <= 0 {
			return buf, nil
		}
		buf = buf[:len(buf)+n]
	}
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// pids lists the processes in /proc, or the threads in /proc/PID/task: the numeric entries but 0.
func pids(dir string) ([]int, error) {
	all, err := numericEntries(dir)
	if i := slices.Index(all, 0); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	return all, err
}

// numericEntries lists the numeric entries of a directory.
func numericEntries(dir string) ([]int, error) {
	fd, err := openRetry(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var (
		out   []int
		names []string
		buf   = make([]byte, 16<<10)
	)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		if n <= 0 {
			return out, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if n, err := strconv.Atoi(name); err == nil && n >= 0 {
				out = append(out, n)
			}
		}
	}
}

// path gives /proc/PID/name.
func path(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
