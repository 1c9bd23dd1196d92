package proc

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// WatchReaders reports, on the descriptor that it returns, each process that closes the read end of a pipe. fd is any
// descriptor of the pipe. inotify(7) watches the pipe itself, so its watcher need not hold an end of it. A user has 128
// instances by default (fs.inotify.max_user_instances); the error is EMFILE when they are used up.
func WatchReaders(fd int) (int, error) {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("watch a pipe: %w", err)
	}
	if _, err := unix.InotifyAddWatch(watch, "/proc/self/fd/"+strconv.Itoa(fd), unix.IN_CLOSE_NOWRITE); err != nil {
		unix.Close(watch)
		return -1, fmt.Errorf("watch a pipe: %w", err)
	}
	return watch, nil
}

// CloseWatch closes a watch without waiting. close(2), and the end of the process as well, would wait some 10 ms for
// the kernel (Linux 6.18, fsnotify_wait_marks_destroyed). So the watch is left in the queue of a socket that no process
// can reach any more. The kernel's collector of such queues closes it on its own time.
func CloseWatch(watch int) {
	defer unix.Close(watch)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(watch, pair[1]), nil, unix.MSG_DONTWAIT)
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
}

// DrainWatch forgets what a watch has reported so far.
func DrainWatch(watch int) {
	var buf [512]byte
	for {
		if n, err := unix.Read(watch, buf[:]); n <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// HasReader reports whether any process can still read from a pipe: poll(2) calls a write end without a reader an error.
// The pipe is opened anew for that. Where it cannot be opened, as without a free descriptor, nothing is known.
func HasReader(fd int) (has, known bool) {
	again, err := Reopen(fd, unix.O_WRONLY)
	if err != nil {
		// A named pipe without a reader cannot even be opened (fifo(7)).
		return false, errors.Is(err, unix.ENXIO)
	}
	defer unix.Close(again)
	end := unix.PollFd{Fd: int32(again)}
	return !look(&end) || end.Revents&unix.POLLERR == 0, true
}

// HoldPath replaces a descriptor of a pipe by one that names the pipe and holds no end of it (open(2), O_PATH).
func HoldPath(fd int) error {
	path, err := Reopen(fd, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(path)
	if err := unix.Dup3(path, fd, 0); err != nil {
		return fmt.Errorf("let go of descriptor %d: %w", fd, err)
	}
	return nil
}

// IsPipe reports whether a descriptor is an end of a pipe.
func IsPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
