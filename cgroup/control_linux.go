package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/kernel"
)

// controls are the files of a leaf that ending it takes, with the mode to open each. They can be opened beforehand, for a
// time when nothing can be opened any more.
var controls = [...]struct {
	name string
	mode int
}{
	{"cgroup.kill", unix.O_WRONLY},
	{"cgroup.procs", unix.O_RDONLY},
	{"cgroup.events", unix.O_RDONLY},
}

// OpenControls opens what ending the leaf takes: its directory and the control files, in the order that Adopt wants. Where
// one cannot be had (cgroup.kill before Linux 5.14), it and those that follow are left to be opened later.
func (l *Leaf) OpenControls() ([]int, error) {
	dir, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold cgroup %s: %w", l.Dir, err)
	}
	fds := []int{dir}
	for _, c := range controls {
		fd, err := unix.Openat(l.fd, c.name, c.mode|unix.O_CLOEXEC, 0)
		if err == nil {
			fds = append(fds, fd)
			continue
		}
		break
	}
	return fds, nil
}

// Adopt makes a leaf of the descriptors that OpenControls gave, and owns them.
func Adopt(dir string, fds []int) *Leaf {
	l := &Leaf{Dir: dir, fd: fds[0], held: map[string]int{}}
	for i, fd := range fds[1:] {
		if i < len(controls) {
			l.held[controls[i].name] = fd
		}
	}
	return l
}

// read reads a control file of the leaf.
func (l *Leaf) read(name string) ([]byte, error) {
	fd, ok := l.held[name]
	if !ok {
		return kernel.ReadAt(l.fd, name, nil)
	}
	var out []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Pread(fd, buf, int64(len(out)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("read %s of cgroup %s: %w", name, l.Dir, err)
		}
		if n <= 0 {
			return out, nil
		}
		out = append(out, buf[:n]...)
	}
}

// write writes to a control file of the leaf.
func (l *Leaf) write(name, data string) error {
	fd, ok := l.held[name]
	if !ok {
		return kernel.WriteAt(l.fd, name, data)
	}
	if _, err := unix.Write(fd, []byte(data)); err != nil {
		return fmt.Errorf("write %q to %s of cgroup %s: %w", data, name, l.Dir, err)
	}
	return nil
}
