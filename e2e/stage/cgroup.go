package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OwnCgroup is the directory of the cgroup v2 that this process is in.
func OwnCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	_, path, found := strings.Cut("\n"+string(own), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	for line := range strings.Lines(string(mounts)) {
		// mount id, parent, device, root, mount point: the fourth is not "/" in a bind mount.
		fields := strings.Fields(line)
		if !found || !strings.Contains(line, " - cgroup2 ") || len(fields) < 5 {
			continue
		}
		return filepath.Join(fields[4], path), nil
	}
	return "", errors.New("no cgroup v2 is mounted")
}

// WritableCgroup is our own cgroup, if we may make others below it. That cgroup v2 is mounted is not
// enough: a plain user may not write to it, and in a container it is usually read-only.
func WritableCgroup() (string, error) {
	dir, err := OwnCgroup()
	if err != nil {
		return "", err
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return "", fmt.Errorf("write to %s: %w", dir, err)
	}
	return dir, nil
}

// KillCgroup kills what is in a cgroup v2 and below. Before Linux 5.14, where no file does that, it kills one after the
// other: nothing may be starting others there.
func KillCgroup(dir string) {
	if os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // gone meanwhile
		}
		if d.IsDir() {
			killAll(path + "/cgroup.procs")
		}
		return nil
	})
}

// killAll kills those whose pids are in a file.
func killAll(file string) {
	pids, _ := os.ReadFile(file)
	for pid := range strings.FieldsSeq(string(pids)) {
		if n, err := strconv.Atoi(pid); err == nil && n > 0 {
			_ = unix.Kill(n, unix.SIGKILL)
		}
	}
}

// RemoveCgroup kills what is in a cgroup v2 and below, and removes it once its processes have gone, for two seconds at most.
func RemoveCgroup(dir string) {
	KillCgroup(dir)
	for range 400 {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				RemoveCgroup(filepath.Join(dir, e.Name()))
			}
		}
		if err := unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// MakeCgroup makes a cgroup of that name below our own.
func MakeCgroup(name string) (string, error) {
	own, err := WritableCgroup()
	if err != nil {
		return "", fmt.Errorf("find a cgroup: %w", err)
	}
	dir := filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	return dir, nil
}
