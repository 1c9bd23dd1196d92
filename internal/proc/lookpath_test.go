package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bins makes directories with one command "tool" in different conditions, each saying where it is.
func bins(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for dir, mode := range map[string]os.FileMode{"good": 0o755, "better": 0o755, "plain": 0o644, "group": 0o010} {
		file := filepath.Join(root, dir, "tool")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho "+dir+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"empty", "directory/tool", "dangling", "loop", "link"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"dangling": "nowhere", "loop": "tool", "link": "../good/tool"} {
		if err := os.Symlink(to, filepath.Join(root, link, "tool")); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The command that is found is the one that env(1) finds by execvp(3), and the exit code is the same too. Only where a
// file stands in place of a directory env says 126; the shells say "not found", and so do we.
func TestLookPathLikeExecvp(t *testing.T) {
	root := bins(t)
	t.Chdir(root + "/better")
	for _, c := range []struct{ name, path string }{
		{"tool", "good"}, {"tool", "good:better"}, {"tool", "better:good"}, {"tool", "empty:good"}, {"tool", "none:good"},
		{"tool", "plain:good"}, {"tool", "directory:good"}, {"tool", "dangling:good"}, {"tool", "link:better"},
		{"tool", "plain"}, {"tool", "plain:empty"}, {"tool", "empty:plain:none"}, {"tool", "dangling"},
		{"tool", "empty"}, {"tool", "none"}, {"tool", "good/tool"}, {"tool", "good/tool:good"}, {"other", "good:better"},
		{"tool", ""}, {"tool", ":"}, {"tool", "empty::good"}, {"tool", "good:"}, {"tool", "."}, {"./tool", "good"},
		{"tool/", "good"}, {"ROOT/good/tool", "better"}, {"ROOT/plain/tool", "good"}, {"ROOT/none", "good"},
		{"ROOT/good/tool/x", "good"}, {"../good/tool", "none"}, {"ROOT/empty", "good"}, {"ROOT/dangling/tool", "good"},
	} {
		name, path := inRoot(root, c.name, c.path)
		file, err := LookPath(name, path)
		got, code := "", 0
		switch {
		case err == nil:
			b, _ := exec.Command(file).Output()
			got = string(b)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			code = 127
		case errors.Is(err, unix.EACCES):
			code = 126
		default:
			t.Errorf("%s in %q: odd error %v", c.name, c.path, err)
			continue
		}
		wantOut, wantCode := execvp(name, path)
		if fileForDirectory(c.name, c.path) {
			wantCode = 127
		}
		if got != wantOut || code != wantCode {
			t.Errorf("%s in %q: %q, %d (%v); env(1): %q, %d", c.name, c.path, got, code, err, wantOut, wantCode)
		}
	}
}

// inRoot makes the names absolute; empty entries of the path stay.
func inRoot(root, name, path string) (absName, absPath string) {
	dirs := strings.Split(path, ":")
	for i, dir := range dirs {
		if dir != "" && dir != "." {
			dirs[i] = root + "/" + dir
		}
	}
	return strings.Replace(name, "ROOT", root, 1), strings.Join(dirs, ":")
}

func fileForDirectory(name, path string) bool {
	return name == "tool/" || path == "good/tool" || name == "ROOT/good/tool/x"
}

func execvp(name, path string) (string, int) {
	cmd := exec.Command("/usr/bin/env", "PATH="+path, name)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", exit.ExitCode()
	}
	return string(out), 0
}

func TestLookPathEmptyName(t *testing.T) {
	if f, err := LookPath("", "/bin:/usr/bin"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%q, %v", f, err)
	}
}
