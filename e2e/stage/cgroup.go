package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// WritableCgroup is our own cgroup, if we may make others below it that the kernel kills as a whole (Linux 5.14). That cgroup v2 is
// mounted is not enough: a plain user may not write to it, and in a container it is usually read-only.
func WritableCgroup() (string, error) {
	dir, err := OwnCgroup()
	if err != nil {
		return "", err
	}
	try, err := os.MkdirTemp(dir, "e2e-try-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(try) }()
	_, err = os.Stat(try + "/cgroup.kill")
	return dir, err
}

// KillCgroup kills what is in a cgroup v2 and below.
func KillCgroup(dir string) { _ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) }

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
