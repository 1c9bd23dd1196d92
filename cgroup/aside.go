package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// A leaf has limits only if the cgroup above hands the controllers on, and a cgroup with processes of its own may not (cgroups(7),
// "no internal processes"). Where those are ours alone, they step aside into a cgroup beside the leaf. It lives no longer than the leaf:
// whoever removes the leaf has them step back.

// asidePrefix begins the name of that cgroup. The id in the leaf's name follows.
const asidePrefix = "mcp-tether.aside."

// asideTries bounds how often processes are born there while they are moved back.
const asideTries = 100

var (
	// ErrLimits says that limits cannot be had.
	ErrLimits = errors.New("limits cannot be enforced")
	// ErrBound says that no other cgroup has the controller for them either.
	ErrBound = errors.New("it is bound to cgroup v1: boot with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all")
)

// Limit sets limits on the leaf, which must be empty. ours are the processes that may step aside. What can be set is set, and the error
// is ErrLimits, with the reason, for the rest.
func (l *Leaf) Limit(limits []Limit, ours []int) error {
	err := l.enable(limits, ours)
	var left []string
	for _, limit := range limits {
		e := kernel.WriteAt(l.fd, limit.File, limit.Value)
		switch {
		case e != nil:
			left = append(left, limit.File)
			if err == nil {
				err = e
			}
		case limit.File == "memory.max":
			// Without one of its processes a server may wait for it for ever, so all of them end (Linux 4.19).
			_ = kernel.WriteAt(l.fd, "memory.oom.group", "1")
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w (%s): %w", ErrLimits, strings.Join(left, ", "), err)
}

// enable has the cgroup above hand on the controllers that limits need. The error says why it does not hand on all.
func (l *Leaf) enable(limits []Limit, ours []int) error {
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
	if e := l.stepAside(ours); e != nil {
		return e
	}
	return errors.Join(kernel.WriteAt(l.up, "cgroup.subtree_control", strings.Join(add, " ")), err)
}

// above reads a list in a control file of the cgroup above.
func (l *Leaf) above(file string) ([]string, error) {
	b, err := kernel.ReadAt(l.up, file, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s of cgroup %s: %w", file, path.Dir(l.Dir), err)
	}
	return strings.Fields(string(b)), nil
}

// missing says why a cgroup has not got a controller.
func missing(controller, dir string) error {
	b, _ := kernel.Read("/proc/cgroups", nil)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == controller && f[1] != "0" {
			return fmt.Errorf("controller %s: %w", controller, ErrBound)
		}
	}
	return fmt.Errorf("controller %s is not delegated to cgroup %s", controller, dir)
}

// stepAside moves our processes out of the cgroup above, unless others are there as well. The root of the hierarchy, which has no type,
// may have processes.
func (l *Leaf) stepAside(ours []int) error {
	if _, err := kernel.ReadAt(l.up, "cgroup.type", nil); errors.Is(err, unix.ENOENT) {
		return nil
	}
	procs, err := l.above("cgroup.procs")
	if err != nil {
		return err
	}
	for _, pid := range procs {
		if n, _ := strconv.Atoi(pid); !slices.Contains(ours, n) {
			return fmt.Errorf("cgroup %s also holds other processes, such as %s, so it may not hand on controllers", path.Dir(l.Dir), pid)
		}
	}
	name := l.aside()
	if err := unix.Mkdirat(l.up, name, 0o755); err != nil {
		return fmt.Errorf("create cgroup %s/%s: %w", path.Dir(l.Dir), name, err)
	}
	for _, pid := range procs {
		if err := kernel.WriteAt(l.up, name+"/cgroup.procs", pid); err != nil {
			return err // Whoever removes the leaf moves the others back.
		}
	}
	return nil
}

// aside is the name of the cgroup into which our processes step aside.
func (l *Leaf) aside() string { return asidePrefix + strings.TrimPrefix(path.Base(l.Dir), Prefix) }

// stepBack undoes stepAside, if that was done. The cgroup above hands on no controllers any more, unless it has become the
// place of other leaves.
func (l *Leaf) stepBack() {
	name := l.aside()
	dir, err := openDir(l.up, name)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	names, err := children(l.up)
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return n != name && n != path.Base(l.Dir) }) {
		return
	}
	on, _ := l.above("cgroup.subtree_control")
	if len(on) > 0 && kernel.WriteAt(l.up, "cgroup.subtree_control", "-"+strings.Join(on, " -")) != nil {
		return
	}
	for range asideTries {
		procs, _ := kernel.ReadAt(dir, "cgroup.procs", nil)
		for pid := range strings.FieldsSeq(string(procs)) {
			_ = kernel.WriteAt(l.up, "cgroup.procs", pid)
		}
		if unix.Unlinkat(l.up, name, unix.AT_REMOVEDIR) == nil {
			return
		}
	}
}
