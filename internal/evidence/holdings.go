package evidence

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Holdings are what processes have open that shows work to others, or keeps others waiting: sockets that listen, take
// datagrams or are connected to a process outside, files that are open for writing, and locks. The key tells one from another,
// and stays the same while it is held. The value says in words what it is.
type Holdings map[string]string

// HoldingsOf looks at the processes of a tree. What the caller has open as well is left out: they may have it from there. The
// error says that something cannot be read.
func HoldingsOf(tree []proc.Stat) (Holdings, error) {
	s := search{Holdings{}, map[string]bool{}, map[string]bool{}, nil}
	err := proc.EachDescriptor(unix.Getpid(), func(_, to string, _ error) bool {
		s.except[to] = true
		return true
	})
	if err != nil {
		return nil, err
	}
	// A plain user may not look at a process that is just ending. What the others hold is told all the same.
	for i := range tree {
		err = errors.Join(err, s.descriptors(&tree[i]))
	}
	if len(s.sockets) == 0 {
		return s.found, err
	}
	pids := make([]int, len(tree))
	for i := range tree {
		pids[i] = tree[i].PID
	}
	open, unread := openSockets(pids, s.sockets, s.sockets)
	for ino, how := range open {
		s.found["socket "+ino] = "it " + how
	}
	return s.found, errors.Join(err, unread)
}

// search is one search for what a tree holds.
type search struct {
	found  Holdings
	except map[string]bool
	// sockets are those of the tree, by their inodes.
	sockets map[string]bool
	buf     []byte
}

// descriptors looks through the descriptors of one process.
func (s *search) descriptors(p *proc.Stat) (unread error) {
	name := p.Comm + " (" + strconv.Itoa(p.PID) + ")"
	err := proc.EachDescriptor(p.PID, func(link, to string, err error) bool {
		ino, isSocket := inode(to, socketPrefix)
		switch {
		case err != nil || s.except[to]:
		case isSocket:
			s.sockets[strconv.FormatUint(ino, 10)] = true
		case to[0] == '/' && !harmless(to):
			err = s.file(strings.Replace(link, "/fd/", "/fdinfo/", 1), to, name)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // closed meanwhile
			unread = err
		}
		return unread == nil
	})
	if err != nil && !errors.Is(err, proc.ErrGone) {
		unread = err
	}
	return unread
}

// harmless reports whether nothing is lost with an open file: /dev/null, and memory without a name.
func harmless(file string) bool {
	return file == "/dev/null" || strings.HasPrefix(file, "/memfd:")
}

// file reads how a file is open, and which locks were taken through it (proc_pid_fdinfo(5)).
func (s *search) file(info, file, name string) (err error) {
	if s.buf, err = proc.Read(info, s.buf); err != nil {
		return err
	}
	for line := range strings.Lines(string(s.buf)) {
		switch word := strings.Fields(line); {
		case len(word) == 2 && word[0] == "flags:":
			flags, err := strconv.ParseUint(word[1], 8, 64)
			if err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0 {
				s.found["write "+file] = name + " has " + file + " open for writing"
			}
		case len(word) > 6 && word[0] == "lock:":
			// Its number, kind, strictness, mode, process, file and range. The number changes.
			s.found["lock "+word[2]+word[4]+word[6]+file] = name + " holds a lock on " + file
		}
	}
	return nil
}
