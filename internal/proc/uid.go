package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// UID gives the effective user of a process: the owner of its /proc entry (proc(5); root for one that is not dumpable).
func UID(pid int) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(Path(pid, ""), &st); err != nil {
		return -1, fmt.Errorf("read owner of %d: %w", pid, vanished(err))
	}
	return int(st.Uid), nil
}

// OwnWords reports whether command line and environment of a process are the word of a user. Those of a set-user-ID
// program are its caller's, so its real, effective and saved user must be that one. Root of another pid namespace, as of
// a container, is not root here. Ask after they were read: what changes its user meanwhile does not count.
func (r *Reader) OwnWords(pid, uid int) (bool, error) {
	b, err := r.read(Path(pid, "status"), false)
	if err != nil {
		return false, vanished(err)
	}
	return ownWords(b, uid), nil
}

// ownWords reads proc_pid_status(5). Without NSpid (before Linux 4.1) nothing tells the namespace.
func ownWords(status []byte, uid int) bool {
	own := false
	for line := range bytes.Lines(status) {
		if list, is := bytes.CutPrefix(line, []byte("Uid:")); is {
			ids := bytes.Fields(list)
			own = len(ids) == 4
			for _, id := range ids[:min(len(ids), 3)] {
				own = own && string(id) == strconv.Itoa(uid)
			}
		}
		if pids, is := bytes.CutPrefix(line, []byte("NSpid:")); is && uid == 0 && len(bytes.Fields(pids)) != 1 {
			return false
		}
	}
	return own
}
