package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// A leaf has limits only if the cgroup above hands the controllers on. One with processes of its own may not, unless it is the root
// of the hierarchy (cgroups(7), "no internal processes").

// aside is the cgroup beside the leaf, in a scope of our own, for the processes that the leaf is not for.
const aside = "mcp-tether.aside"

var (
	// ErrLimits says that limits cannot be had.
	ErrLimits = errors.New("limits cannot be enforced")
	// ErrBound says that no other cgroup has the controller for them either.
	ErrBound = errors.New("it is bound to cgroup v1: boot with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all")
)

// StepAside moves processes, which are all that a cgroup holds, into one below it, so that leaves beside that can have limits.
func StepAside(dir string, pids ...int) error {
	fd, err := openCgroup(dir)
	if err != nil {
		return fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(fd, aside, 0o755); err != nil {
		return fmt.Errorf("create cgroup %s/%s: %w", dir, aside, err)
	}
	for _, pid := range pids {
		if err := proc.WriteAt(fd, aside+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Limit sets limits on the leaf, which must be empty. What can be set is set, and the error is ErrLimits, with the reason, for
// the rest.
func (l *Leaf) Limit(limits []Limit) error {
	err := l.enable(limits)
	var left []string
	for _, limit := range limits {
		e := proc.WriteAt(l.fd, limit.File, limit.Value)
		switch {
		case e != nil:
			left = append(left, limit.File)
			if err == nil {
				err = e
			}
		case limit.File == "memory.max":
			// Without one of its processes a server may wait for it for ever, so all of them end (Linux 4.19).
			_ = proc.WriteAt(l.fd, "memory.oom.group", "1")
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w (%s): %w", ErrLimits, strings.Join(left, ", "), err)
}

// enable has the cgroup above hand on the controllers that limits need. The error says why it does not hand on all.
func (l *Leaf) enable(limits []Limit) error {
	have, err := l.above("cgroup.controllers")
	on, _ := l.above("cgroup.subtree_control")
	if err != nil {
		return err
	}
	var add []string
	for _, limit := range limits {
		c := limit.controller()
		switch {
		case slices.Contains(on, c) || slices.Contains(add, "+"+c):
		case !slices.Contains(have, c):
			err = missing(c, path.Dir(l.Dir))
		default:
			add = append(add, "+"+c)
		}
	}
	if len(add) == 0 {
		return err
	}
	if e := l.alone(); e != nil {
		return e
	}
	return errors.Join(proc.WriteAt(l.up, "cgroup.subtree_control", strings.Join(add, " ")), err)
}

// alone refuses a cgroup above that holds processes. With some controllers the kernel would take them for threads, and let no
// process into the leaf. The root, which has no type, may have processes.
func (l *Leaf) alone() error {
	if _, err := proc.ReadAt(l.up, "cgroup.type", nil); errors.Is(err, unix.ENOENT) {
		return nil
	}
	procs, err := l.above("cgroup.procs")
	if err == nil && len(procs) > 0 {
		err = fmt.Errorf("cgroup %s also holds processes, so it may not hand on controllers", path.Dir(l.Dir))
	}
	return err
}

// above reads a list in a control file of the cgroup above.
func (l *Leaf) above(file string) ([]string, error) {
	b, err := proc.ReadAt(l.up, file, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s of cgroup %s: %w", file, path.Dir(l.Dir), err)
	}
	return strings.Fields(string(b)), nil
}

// missing says why a cgroup has not got a controller.
func missing(controller, dir string) error {
	b, _ := proc.Read("/proc/cgroups", nil)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == controller && f[1] != "0" {
			return fmt.Errorf("controller %s: %w", controller, ErrBound)
		}
	}
	return fmt.Errorf("controller %s is not delegated to cgroup %s", controller, dir)
}
