package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func TestParseLimit(t *testing.T) {
	half := strconv.FormatUint(uint64(wholeOf("memory.max")/2), 10)
	for _, c := range []struct{ file, text, want string }{
		{"memory.max", "1", "1"}, {"memory.max", "500M", "524288000"}, {"memory.max", "1.5G", "1610612736"}, {"memory.max", "2T", "2199023255552"},
		{"memory.max", "4K", "4096"}, {"memory.max", "50%", half}, {"memory.max", "", ""}, {"memory.max", "infinity", ""}, {"pids.max", "infinity", ""},
		{"pids.max", "100", "100"}, {"cpu.max", "50%", "50000 100000"}, {"cpu.max", "250%", "250000 100000"}, {"cpu.max", "1%", "1000 100000"},
		{"cpu.max", "12.5%", "12500 100000"},
	} {
		l, wanted, err := ParseLimit(c.file, c.text)
		if err != nil || wanted != (c.want != "") || l.Value != c.want || wanted && l.File != c.file {
			t.Errorf("%s %q: %+v, %t, %v", c.file, c.text, l, wanted, err)
		}
	}
	for file, texts := range map[string][]string{
		"memory.max": {"0", "-1", "0%", "M", "%", "1X", "1MB", "5 M", "max", "inf", "nan", "0x10", "1e3", "99999999999T", "+1", "1_0", ".", "."},
		"pids.max":   {"0", "-1", "10%", "1K", "x", "99999999"},
		"cpu.max":    {"0%", "0.5%", "50", "1K", "%", "-5%", "99999999999999%"},
	} {
		for _, text := range texts {
			if l, _, err := ParseLimit(file, text); err == nil || !strings.Contains(err.Error(), "infinity") {
				t.Errorf("%s %q: %+v, %v", file, text, l, err)
			}
		}
	}
}

// limitable is a cgroup with a controller that it may hand on, and a limit that this controller holds. For the time of the test our own
// cgroup hands the controller on, if it is the root, which may have processes.
func limitable(t *testing.T) (dir string, limit Limit) {
	t.Helper()
	file := parent(t) + "/cgroup.subtree_control"
	have := written(t, parent(t)+"/cgroup.controllers")
	if _, err := os.Stat(parent(t) + "/cgroup.type"); err == nil {
		have = "" // not the root: with us in it, what is below it would be of no use
	}
	for c, limit := range map[string]Limit{"pids": {"pids.max", "10"}, "hugetlb": {"hugetlb.2MB.max", "0"}} {
		on := strings.Contains(written(t, file), c)
		if !on && strings.Contains(have, c) && os.WriteFile(file, []byte("+"+c), 0) == nil {
			on = true
			t.Cleanup(func() { _ = os.WriteFile(file, []byte("-"+c), 0) })
		}
		if on {
			return newLeaf(t).Dir, limit
		}
	}
	testkit.Lacks(t, testkit.Controllers, true, "a cgroup v2 with controllers")
	return "", Limit{}
}

// rest starts a process in a cgroup, which ends with the test.
func rest(t *testing.T, dir string) int {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: cgroupFD(t, dir)}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func written(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// A leaf has limits where the cgroup above may hand the controller on: not beside processes. What is kept then goes aside.
func TestLimit(t *testing.T) {
	dir, limit := limitable(t)
	beside := rest(t, dir)
	l, err := Create(dir, Prefix+"0011223344556677")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Limit([]Limit{limit}); !errors.Is(err, ErrLimits) || !strings.Contains(err.Error(), "also holds processes") {
		t.Errorf("beside a process: %v", err)
	}
	if err := os.Mkdir(dir+"/"+aside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+aside+"/cgroup.procs", []byte(strconv.Itoa(beside)), 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Limit([]Limit{limit}); err != nil {
		t.Fatal(err)
	}
	if got := written(t, l.Dir+"/"+limit.File); got != limit.Value {
		t.Errorf("%s is %s", limit.File, got)
	}
	kept := rest(t, l.Dir)
	if err := l.Expel(kept); err != nil {
		t.Error(err)
	}
	if got := written(t, dir+"/"+aside+"/cgroup.procs"); got != fmt.Sprintf("%d\n%d", min(beside, kept), max(beside, kept)) {
		t.Errorf("aside are %q", got)
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
}

func TestLimitWithoutController(t *testing.T) {
	l := newLeaf(t)
	err := l.Limit([]Limit{{"nosuch.max", "1"}})
	if !errors.Is(err, ErrLimits) || !strings.Contains(err.Error(), "nosuch.max") || !strings.Contains(err.Error(), "not delegated") {
		t.Error(err)
	}
}
