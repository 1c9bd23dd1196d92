package proc

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/waiting"
)

// Child says how a process is started. Its standard streams are the caller's, untouched, unless others are given; so are
// all other inherited descriptors and the working directory.
type Child struct {
	// Stdin, Stdout and Stderr are descriptors to have in place of the caller's; 0 leaves them.
	Stdin, Stdout, Stderr int
	// Path is the file to execute; Argv[0] may differ.
	Path string
	Argv []string
	Env  []string
	// NewGroup makes the child lead a process group, NewSession a session (and a group).
	NewGroup, NewSession bool
	// DiesWithThread has the kernel SIGKILL the child when the starting thread ends (PR_SET_PDEATHSIG). Set it only on
	// a thread that lives as long as the process.
	DiesWithThread bool
	// Cgroup is an open cgroup v2 directory in which the child is created (CLONE_INTO_CGROUP, Linux 5.7); 0 or less is none.
	Cgroup int
}

// Start starts the child and returns its pid. The error is the errno of fork or exec.
func Start(c Child) (int, error) {
	pid, err := c.start()
	if errors.Is(err, unix.ENOEXEC) {
		// A script without "#!": execvp(3), which the gateway would have used, hands it to the shell.
		c.Argv = append([]string{"/bin/sh", c.Path}, c.Argv[1:]...)
		c.Path = "/bin/sh"
		return c.start()
	}
	return pid, err
}

func (c *Child) start() (int, error) {
	attr := syscall.SysProcAttr{Setpgid: c.NewGroup, Setsid: c.NewSession, UseCgroupFD: c.Cgroup > 0, CgroupFD: max(c.Cgroup, 0)}
	if c.DiesWithThread {
		attr.Pdeathsig = syscall.SIGKILL
	}
	if found, ok := waiting.Found(); ok { // What is blocked here since, a child is not to inherit.
		was := setMask(found.Mask)
		defer setMask(was)
	}
	files := []uintptr{0, 1, 2}
	for i, fd := range []int{c.Stdin, c.Stdout, c.Stderr} {
		if fd > 0 {
			files[i] = uintptr(fd)
		}
	}
	return syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Env: c.Env, Files: files, Sys: &attr})
}

// LookPath finds the file that execvp(3) would execute. The error is ENOENT when there is none, EACCES when what was
// found may not be executed.
func LookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	if name == "" {
		return "", fmt.Errorf("command %q: %w", name, unix.ENOENT)
	}
	denied := false
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		err := executable(dir + "/" + name)
		if err == nil {
			return dir + "/" + name, nil
		}
		denied = denied || errors.Is(err, unix.EACCES)
	}
	if denied {
		return "", fmt.Errorf("command %s in PATH: %w", name, unix.EACCES)
	}
	return "", fmt.Errorf("command %s is not in PATH: %w", name, unix.ENOENT)
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return fmt.Errorf("command %s: %w", file, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("command %s is not a regular file: %w", file, unix.EACCES)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, 0); err != nil {
		return fmt.Errorf("execute command %s: %w", file, err)
	}
	return nil
}
