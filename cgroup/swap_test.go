package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// A leaf is what was opened. Another cgroup that gets its path meanwhile is not touched: neither removed, nor given a
// process. Without the swap the same is done to the leaf itself.
func TestLeafSwapped(t *testing.T) {
	base := parent(t)
	testkit.Need(t, testkit.Namespaces)
	for _, swapped := range []bool{true, false} {
		ours, theirs, at := base+"/swap-ours", base+"/swap-theirs", t.TempDir()
		for _, dir := range []string{ours, theirs, ours + "/leaf", theirs + "/leaf"} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(dir)
		}
		show := func(dir string) {
			if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
				testkit.Lacks(t, testkit.Namespaces, true, "to mount: "+err.Error())
			}
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		}
		show(ours)
		l, err := Open(at + "/leaf")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cmd := exec.Command("/bin/cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if swapped {
			show(theirs)
		}
		if err := l.Expel(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cgroup"); err != nil || !strings.Contains(string(b), "/swap-ours\n") {
			t.Errorf("swapped: %v: the process is in %q, %v", swapped, b, err)
		}
		_ = in.Close()
		_ = cmd.Wait()
		if err := l.Remove(); err != nil {
			t.Error(err)
		}
		_, gone := os.Stat(ours + "/leaf")
		_, left := os.Stat(theirs + "/leaf")
		if !errors.Is(gone, os.ErrNotExist) || left != nil {
			t.Errorf("swapped: %v: ours: %v, theirs: %v", swapped, gone, left)
		}
		if err := l.Remove(); err != nil {
			t.Errorf("a leaf that is gone: %v", err)
		}
		_ = unix.Unmount(at, unix.MNT_DETACH)
		_ = unix.Unmount(at, unix.MNT_DETACH)
		for _, dir := range []string{ours + "/leaf", theirs + "/leaf", ours, theirs} {
			_ = os.Remove(dir)
		}
	}
}

// A younger cgroup of the same name is not removed in the place of a leaf that is gone.
func TestRemoveSparesTheNextOfThatName(t *testing.T) {
	l := newLeaf(t)
	if err := unix.Rmdir(l.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(l.Dir); err != nil {
		t.Errorf("the next of that name: %v", err)
	}
}

// No part of the path to a leaf is a link, and nothing but a cgroup is a leaf.
func TestOpenFollowsNoLink(t *testing.T) {
	l := newLeaf(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(l.Dir), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{link + "/" + filepath.Base(l.Dir), link, "relative", t.TempDir()} {
		if got, err := Open(dir); err == nil {
			got.Close()
			t.Errorf("%s was opened", dir)
		}
	}
	again, err := Open(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
