package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// controls are the files that are needed to end a leaf, with the mode to open each. Hold opens them beforehand, for a
// time when nothing can be opened any more.
var controls = [...]struct {
	name string
	mode int
}{
	{"cgroup.procs", unix.O_RDONLY},
	{"cgroup.events", unix.O_RDONLY},
	{"cgroup.kill", unix.O_WRONLY}, // the last one, as it is missing before Linux 5.14
}

// Hold opens the control files, and keeps them open until Close. If one cannot be opened, it and those that follow are
// opened when they are needed.
func (l *Leaf) Hold() {
	for _, c := range controls {
		if l.hold(c.name, c.mode) != nil {
			return
		}
	}
}

// hold opens a control file, unless it is open, and keeps it so.
func (l *Leaf) hold(name string, mode int) error {
	if _, ok := l.held[name]; ok {
		return nil
	}
	fd, err := unix.Openat(l.fd, name, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s of cgroup %s: %w", name, l.Dir, err)
	}
	if l.held == nil {
		l.held = map[string]int{}
	}
	l.held[name] = fd
	return nil
}

// Descriptors are the leaf's directory, that above it and the control files that are held, in the order that Adopt wants.
// They stay the leaf's.
func (l *Leaf) Descriptors() []int {
	fds := []int{l.fd, l.up}
	for _, c := range controls {
		fd, ok := l.held[c.name]
		if !ok {
			break
		}
		fds = append(fds, fd)
	}
	return fds
}

// Adopt makes a leaf of the descriptors that another process got from Descriptors. The leaf owns them. There must be
// two at least.
func Adopt(dir string, fds []int) *Leaf {
	l := &Leaf{Dir: dir, fd: fds[0], up: fds[1], held: map[string]int{}}
	for i, fd := range fds[2:] {
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
