package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Descendants lists every living or dead-but-unreaped descendant of the process root, parents before children. root
// must be a child subreaper (PR_SET_CHILD_SUBREAPER, or pid 1) for the list to hold processes that detached themselves.
//
// The kernel promises an exact list of children only while they are stopped (proc_pid_task(5)), so the list is a
// snapshot. A caller that must be sure asks again until nothing new turns up. Where the kernel lists no children, all
// processes are read.
//
// An error may come with the processes that could be read: others may be there.
func (r *Reader) Descendants(root int) ([]Stat, error) {
	r.Unseen = false
	first, err := r.children(root, 0)
	if errors.Is(err, ErrGone) {
		// Kernels without CONFIG_PROC_CHILDREN, and emulated ones such as gVisor.
		return r.descendantsByScan(root)
	}
	if err != nil {
		return nil, err
	}
	var (
		out []Stat
		// known says of each process that was met whether its children are descendants.
		known = map[int]bool{root: true}
		queue = first
		// unread says why a process that may be there is not in the list.
		unread error
	)
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if _, met := known[pid]; met {
			continue
		}
		s, err := r.Stat(pid)
		if Starved(err) {
			unread = err
		}
		r.Unseen = r.Unseen || err != nil && unix.Kill(pid, 0) != unix.ESRCH
		// A pid listed a moment ago may be another process's by now: it is a descendant only if its parent is one.
		if err != nil || !known[s.PPID] {
			continue
		}
		out = append(out, s)
		more, same, err := r.childrenOf(s)
		if Starved(err) {
			unread = err
		}
		// If it has ended meanwhile, its own children have another parent by now.
		known[pid] = same
		queue = append(queue, more...)
	}
	return out, unread
}

// childrenOf lists the children of a process. same says that the pid was its own all the while, and is true if there are none.
func (r *Reader) childrenOf(p Stat) (list []int, same bool, err error) {
	list, err = r.children(p.PID, p.Threads)
	if len(list) == 0 {
		return nil, true, err
	}
	now, statErr := r.Stat(p.PID)
	if err == nil {
		err = statErr
	}
	return list, statErr == nil && now.ID == p.ID, err
}

// Starved reports whether an error says that there is no descriptor or memory to look with now. It tells nothing
// about the process that was to be looked at.
func Starved(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// children reads /proc/PID/task/TID/children of every thread. threads is their number if known, else 0. The list may be
// incomplete if there is an error.
func (r *Reader) children(pid, threads int) ([]int, error) {
	tids := []int{pid}
	if threads != 1 {
		all, err := pids(Path(pid, "task"))
		if err != nil {
			return nil, vanished(err)
		}
		tids = all
	}
	var (
		out  []int
		read bool
		last error
	)
	for _, tid := range tids {
		b, err := r.read(Path(pid, "task/"+strconv.Itoa(tid)+"/children"), false)
		if Starved(err) {
			return out, err
		}
		if err != nil {
			last = vanished(err)
			continue
		}
		read = true
		for _, f := range bytes.Fields(b) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				out = append(out, child)
			}
		}
	}
	if !read {
		return nil, last
	}
	return out, nil
}

// descendantsByScan reads the whole process table.
func (r *Reader) descendantsByScan(root int) ([]Stat, error) {
	all, err := r.All()
	t := NewTable(all)
	return t.Below(t.Children(root), nil), err
}

// All reads the stat of every process in sight. Entries that vanish or cannot be read meanwhile are left out. An error may
// come with those that could be read, if others were left out for want of a descriptor or memory.
func (r *Reader) All() ([]Stat, error) {
	list, err := PIDs()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("read the process table: /proc is empty: %w", unix.ENODEV)
	}
	return r.stats(list)
}

// stats reads the stat of the processes. As a rule the last ones are the newest. They are read first: they may be gone, or have
// children, in a moment. See All for the error.
func (r *Reader) stats(list []int) (out []Stat, unread error) {
	out = make([]Stat, 0, len(list))
	for _, pid := range slices.Backward(list) {
		s, err := r.Stat(pid)
		if err == nil {
			out = append(out, s)
		} else if Starved(err) {
			unread = err
		}
	}
	return out, unread
}
