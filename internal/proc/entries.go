package proc

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// PIDs lists the processes in sight.
func PIDs() ([]int, error) { return pids("/proc") }

// pids lists the processes in /proc, or the threads in /proc/PID/task: the numeric entries but 0.
func pids(dir string) ([]int, error) {
	all, err := numericEntries(dir)
	if i := slices.Index(all, 0); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	return all, err
}

// EachDescriptor visits the links in the descriptor table of a process until visit returns false. to is where a link leads;
// err says that it could not be read, mostly because the file was closed meanwhile. The error is ErrGone when there is no
// such process.
func EachDescriptor(pid int, visit func(link, to string, err error) (more bool)) error {
	fds, err := numericEntries(Path(pid, "fd"))
	if err != nil {
		return vanished(err)
	}
	for _, fd := range fds {
		link := Path(pid, "fd/"+strconv.Itoa(fd))
		if to, err := Readlink(link); !visit(link, to, err) {
			break
		}
	}
	return nil
}

// numericEntries lists the numeric entries of a directory.
func numericEntries(dir string) ([]int, error) {
	fd, err := Open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
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

// Readlink says where a link below /proc leads, which is never empty. The error is ErrGone when it is not there.
func Readlink(name string) (string, error) {
	var b [256]byte
	n, err := unix.Readlink(name, b[:])
	// Of namespaces that are closed to us, Linux 5.10.262 says nothing instead of an error.
	if err == nil && n == 0 {
		err = unix.EACCES
	}
	if err != nil {
		return "", fmt.Errorf("read link %s: %w", name, vanished(err))
	}
	return string(b[:n]), nil
}
