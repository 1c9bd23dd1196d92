package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A lock file per process is the demo's witness. The kernel drops a lock when its holder dies and at no other time, so
// a free lock proves a death. A held one proves that the pid in the file is still that process and no other.

// enrol takes the lock of a role for the rest of this process's life.
func enrol(role, dir string) error {
	file, err := os.Create(filepath.Join(dir, role))
	if err != nil {
		return fmt.Errorf("create the lock of %s: %w", role, err)
	}
	// A descriptor of its own: the garbage collector closes an *os.File that nobody refers to.
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return fmt.Errorf("keep the lock of %s open: %w", role, err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("take the lock of %s: %w", role, err)
	}
	if _, err := file.WriteString(strconv.Itoa(os.Getpid())); err != nil {
		return fmt.Errorf("write the pid of %s: %w", role, err)
	}
	return file.Close()
}

// holder reads who has the lock of a role.
func holder(role, dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, role))
	if err != nil {
		return 0, fmt.Errorf("read the pid of %s: %w", role, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the pid of %s: %w", role, err)
	}
	return pid, nil
}

// awaitDeath returns when the holder of a role's lock has died.
func awaitDeath(role, dir string) error {
	file, err := os.Open(filepath.Join(dir, role))
	if err != nil {
		return fmt.Errorf("open the lock of %s: %w", role, err)
	}
	defer file.Close()
	fd := int(file.Fd())
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// end kills the holder of a role's lock, if there is one, and returns when it is dead.
func end(role, dir string) error {
	file, err := os.Open(filepath.Join(dir, role))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the lock of %s: %w", role, err)
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return nil
	}
	pid, err := holder(role, dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s (pid %d): %w", role, pid, err)
	}
	return awaitDeath(role, dir)
}
