package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

const noMark = ""

// A kin is a process of the family under test. The pidfd makes it that one and no later process of the same pid.
type kin struct {
	pid, parent, session int
	start                string
	comm                 string
	fd                   int
}

func (k kin) String() string { return fmt.Sprintf("%s(%d)", k.comm, k.pid) }

// findKin finds the descendants of roots, and the processes with the mark in their environment, and their descendants.
func findKin(t *testing.T, roots []int, mark string) []kin {
	t.Helper()
	all := map[int]kin{}
	children := map[int][]int{}
	queue := append([]int(nil), roots...)
	for _, k := range readTable(t) {
		all[k.pid] = k
		children[k.parent] = append(children[k.parent], k.pid)
		if hasMark(k.pid, mark) {
			queue = append(queue, k.pid)
		}
	}
	isRoot := map[int]bool{}
	for _, pid := range roots {
		isRoot[pid] = true
	}
	var found []kin
	for seen := map[int]bool{}; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		queue = append(queue, children[pid]...)
		if k, ok := all[pid]; ok && !isRoot[pid] && k.hold(t) {
			found = append(found, k)
		}
	}
	return found
}

func readTable(t *testing.T) []kin {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var table []kin
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if k, ok := readKin(pid); ok {
			table = append(table, k)
		}
	}
	return table
}

// readKin reads a living process; zombies are dead.
func readKin(pid int) (kin, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return kin{}, false
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if fields[0] == "Z" || fields[0] == "X" {
		return kin{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	session, _ := strconv.Atoi(fields[3])
	return kin{pid: pid, parent: parent, session: session, start: fields[19], comm: string(stat[open+1 : end]), fd: -1}, true
}

func hasMark(pid int, mark string) bool {
	if mark == noMark {
		return false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environ, []byte("E2E_FAMILY="+mark+"\x00"))
}

// hold opens the pidfd, and says whether the process is still the one that was read.
func (k *kin) hold(t *testing.T) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(k.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatalf("hold %v: %v", *k, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	k.fd = fd
	now, ok := readKin(k.pid)
	return ok && now.start == k.start
}

// awaitKin waits until all are dead or the time is over, and returns those that are not dead.
func awaitKin(t *testing.T, family []kin, limit time.Duration) []kin {
	t.Helper()
	deadline := time.Now().Add(limit)
	var left []kin
	for _, k := range family {
		dead, err := awaitPidfd(k.fd, time.Until(deadline))
		if err != nil {
			t.Fatalf("wait for %v: %v", k, err)
		}
		if !dead {
			left = append(left, k)
		}
	}
	return left
}

// awaitPidfd says whether the process has died in time. A pidfd is readable from then on, zombie or not.
func awaitPidfd(fd int, limit time.Duration) (bool, error) {
	deadline := time.Now().Add(limit)
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n == 1, err
		}
	}
}

// endKin kills them and what they have started meanwhile.
func endKin(t *testing.T, family []kin) {
	t.Helper()
	for len(family) > 0 {
		pids := make([]int, len(family))
		for i, k := range family {
			pids[i] = k.pid
		}
		late := findKin(t, pids, noMark)
		for _, k := range family {
			if err := unix.PidfdSendSignal(k.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Errorf("end %v: %v", k, err)
			}
		}
		if left := awaitKin(t, family, testkit.Patience); len(left) > 0 {
			t.Fatalf("cannot end %v", left)
		}
		family = late
	}
}
