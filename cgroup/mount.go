package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ErrNone says that there is no cgroup v2 hierarchy in sight.
var ErrNone = errors.New("no cgroup v2 hierarchy is mounted")

// findDir gives the directory of this process's cgroup from the texts of /proc/self/mountinfo and /proc/self/cgroup
// (proc_pid_mountinfo(5), cgroups(7)). The mount need not be at /sys/fs/cgroup (hybrid set-ups have it at
// /sys/fs/cgroup/unified), and a bind mount may show a part of the hierarchy only.
func findDir(mountinfo, selfCgroup []byte) (string, error) {
	current, ok := cgroupPath(selfCgroup)
	if !ok {
		return "", ErrNone
	}
	found := false
	for line := range bytes.Lines(mountinfo) {
		root, point, ok := parseMount(string(line))
		if !ok {
			continue
		}
		found = true
		if rel, ok := below(root, current); ok {
			return path.Join(point, rel), nil
		}
	}
	if found {
		return "", fmt.Errorf("this process's cgroup %s is outside of every cgroup v2 mount", current)
	}
	return "", ErrNone
}

// cgroupPath reads the "0::/path" line.
func cgroupPath(selfCgroup []byte) (string, bool) {
	for line := range bytes.Lines(selfCgroup) {
		if p, ok := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("0::")); ok {
			return strings.TrimSuffix(string(p), " (deleted)"), true
		}
	}
	return "", false
}

// parseMount reads the root and mount point of a cgroup2 line: "ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG...] - TYPE
// SOURCE SUPER".
func parseMount(line string) (root, point string, ok bool) {
	head, tail, ok := strings.Cut(line, " - ")
	if !ok || !strings.HasPrefix(tail, "cgroup2 ") {
		return "", "", false
	}
	f := strings.Fields(head)
	if len(f) < 6 {
		return "", "", false
	}
	root, point = unescape(f[3]), unescape(f[4])
	return root, point, strings.HasPrefix(root, "/") && strings.HasPrefix(point, "/")
}

// below gives p relative to root, when p is root or below it.
// "/../x" is a cgroup outside of this process's cgroup namespace (cgroup_namespaces(7)).
func below(root, p string) (string, bool) {
	rel, ok := p, true
	if root != "/" {
		rel, ok = strings.CutPrefix(p, root)
	}
	outside := slices.Contains(strings.Split(rel, "/"), "..")
	return rel, ok && !outside && (rel == "" || rel[0] == '/')
}

// unescape undoes the escapes of the kernel: space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
