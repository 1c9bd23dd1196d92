package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs are the two binaries of a stage, by absolute paths.
type Programs struct {
	Tether  string // mcp-tether, as it is shipped
	Fixture string // gateways, servers and worlds, as badly behaved as somebody asks for (e2e/fixture)
}

// Build makes the fixture in dir, and mcp-tether too unless its path is given. root is the project's directory.
func Build(root, dir, tether string) (Programs, error) {
	p := Programs{Tether: tether, Fixture: filepath.Join(dir, "fixture")}
	// Other users run them too.
	errs := []error{os.Chmod(dir, 0o755), goBuild(root, p.Fixture, "./e2e/fixture")} //nolint:gosec // it is to be read by others
	if tether == "" {
		p.Tether = filepath.Join(dir, "mcp-tether")
		errs = append(errs, makeBuild(root, p.Tether), os.Chmod(p.Tether, 0o755)) //nolint:gosec // whatever the umask
	}
	return p, errors.Join(append(errs, os.Chmod(p.Fixture, 0o755))...) //nolint:gosec // whatever the umask
}

// Cast builds the fixture for a program that runs in the project's directory. Its file has the name that its processes are to
// show. tidy removes it, with the directory that it is in.
func Cast(name, tether string) (p Programs, tidy func(), err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return p, nil, fmt.Errorf("make a directory: %w", err)
	}
	tidy = func() { _ = os.RemoveAll(dir) }
	if p, err = Build(".", dir, tether); err == nil {
		err = os.Rename(p.Fixture, filepath.Join(dir, name))
	}
	if err != nil {
		tidy()
	}
	p.Fixture = filepath.Join(dir, name)
	return p, tidy, err
}

// makeBuild builds what is shipped: the link flags are part of it.
func makeBuild(root, out string) error {
	if _, err := exec.LookPath("make"); err != nil {
		return goBuild(root, out, "-tags", "urfave_cli_no_docs", ".")
	}
	cmd := exec.Command("make", "-s", "-C", root, "build", "BIN="+out)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Base(out), err, msg)
	}
	return nil
}

func goBuild(root, out string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", out}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Base(out), err, msg)
	}
	return nil
}
