package cgroup

import (
	"errors"
	"path"
	"strings"
	"testing"
)

// Lines of /proc/self/mountinfo.
const (
	v1Memory = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	unified  = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	hybrid   = "31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n" + v1Memory +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:10 master:1 - cgroup2 cgroup2 rw\n"
	part    = "50 23 0:28 /user.slice/app /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	spaced  = "50 23 0:28 / /mnt/a\\040b\\011c\\134d rw - cgroup2 cgroup rw\n"
	spacedR = "50 23 0:28 /my\\040slice /cg rw - cgroup2 cgroup rw\n"
	// Mounted outside of the cgroup namespace that it is seen from.
	outside = "50 23 0:28 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
)

func TestFindDir(t *testing.T) {
	for _, c := range []struct{ what, mounts, own, want string }{
		{"unified", unified, "0::/user.slice/app\n", "/sys/fs/cgroup/user.slice/app"},
		{"unified, root", unified, "0::/\n", "/sys/fs/cgroup"},
		{"hybrid", hybrid, "5:memory:/x\n1:name=systemd:/y\n0::/z\n", "/sys/fs/cgroup/unified/z"},
		{"bind-mounted part", part, "0::/user.slice/app/one\n", "/sys/fs/cgroup/one"},
		{"part that is not ours, then all", part + unified, "0::/system.slice\n", "/sys/fs/cgroup/system.slice"},
		{"spaces in the mount point", spaced, "0::/x\n", "/mnt/a b\tc\\d/x"},
		{"spaces in the root", spacedR, "0::/my slice/x y\n", "/cg/x y"},
		{"colon in the name", unified, "0::/a:b/0::/c\n", "/sys/fs/cgroup/a:b/0::/c"},
		{"deleted", unified, "0::/gone (deleted)\n", "/sys/fs/cgroup/gone"},
		{"namespace, mounted outside of it", outside, "0::/../../x\n", "/sys/fs/cgroup/x"},
	} {
		if got, err := findDir([]byte(c.mounts), []byte(c.own)); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.what, got, err, c.want)
		}
	}
}

func TestFindDirNone(t *testing.T) {
	for _, c := range []struct{ what, mounts, own string }{
		{"nothing", "", ""},
		{"v1 only", v1Memory, "5:memory:/x\n"},
		{"v2 in the kernel, not mounted", v1Memory, "5:memory:/x\n0::/\n"},
		{"mounted, but no line", unified, "5:memory:/x\n"},
		{"cut line", "31 23 0:28 / /sys/fs/cgr", "0::/\n"},
		{"too few fields", "31 23 0:28 / - cgroup2 cgroup2 rw\n", "0::/\n"},
	} {
		if got, err := findDir([]byte(c.mounts), []byte(c.own)); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %q, %v; want ErrNone", c.what, got, err)
		}
	}
}

// There is a hierarchy, but our own place in it cannot be seen. A path must never lead out of the mount: in a hybrid
// set-up there are other file systems beside it.
func TestFindDirOutside(t *testing.T) {
	for _, c := range []struct{ what, mounts, own string }{
		{"beside the mounted part", part, "0::/user.slice/application\n"},
		{"above the mounted part", part, "0::/user.slice\n"},
		{"outside of the namespace", unified, "0::/../x\n"},
		{"further outside than the mount", outside, "0::/../../../x\n"},
	} {
		if got, err := findDir([]byte(c.mounts), []byte(c.own)); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%s: %q, %v; want an error that says so", c.what, got, err)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", `\040`: " ", `a\040`: "a ", `\134040`: `\040`, `\04`: `\04`, `\`: `\`, `\999`: `\999`, `\400`: `\400`,
		`\011\012`: "\t\n", `\x20`: `\x20`, `\377`: `\377`, `\+10`: `\+10`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Whatever the texts hold, the directory is at or below the mount point of some cgroup2 line.
func FuzzFindDir(f *testing.F) {
	for _, mounts := range []string{unified, hybrid, part, spaced, outside} {
		f.Add([]byte(mounts), []byte("0::/user.slice/app\n"))
		f.Add([]byte(mounts), []byte("1:name=systemd:/\n0::/../x\n"))
	}
	f.Add([]byte("0 0 0 / /0 0 - cgroup2 "), []byte("0:://../"))
	f.Fuzz(func(t *testing.T, mounts, own []byte) {
		dir, err := findDir(mounts, own)
		if err != nil {
			if dir != "" {
				t.Fatalf("%q with %v", dir, err)
			}
			return
		}
		for line := range strings.Lines(string(mounts)) {
			_, point, ok := parseMount(line)
			if ok && (dir == path.Clean(point) || strings.HasPrefix(dir, strings.TrimSuffix(path.Clean(point), "/")+"/")) {
				return
			}
		}
		t.Fatalf("%q is below no mount of %q", dir, mounts)
	})
}
