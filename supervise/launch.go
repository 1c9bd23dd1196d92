package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// start prepares the containment and starts the server. If that fails, the tree has no process.
func (t *tree) start(path string) error {
	err := t.contain()
	if err == nil {
		t.openEngine()
		t.reserve()
		err = t.launch(path)
	}
	t.clear = err != nil
	return err
}

// launch starts the server.
func (t *tree) launch(path string) error {
	child := proc.Child{
		Path:           path,
		Argv:           t.opts.Command,
		Env:            t.environ(),
		InPlaceOf:      t.ourPIDs(),
		Group:          t.hand.Group,
		DiesWithThread: true,
		CgroupFD:       t.scope.Leaf.FD(),
		CgroupProcs:    -1,
		Inherited:      t.inherited,
		Until:          t.polled.fds,
	}
	if !t.hand.SharesGroup() {
		// In our process group, the server would get each signal to the group. As the leader of a group it could not call
		// setsid(2).
		group, release, err := proc.EmptyGroup()
		if child.Group, child.NewGroup = group, err != nil; err == nil {
			defer release()
		}
	}
	pid, err := t.spawn(child)
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %s", err, missingFor(path))
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	t.server, t.scope.Server = pid, pid
	t.record.Server = t.identity(pid)
	t.postLetter(letter{server: t.record.Server, leaf: t.scope.Leaf})
	return nil
}

// ourPIDs are the processes that may have been started as the server: the front, the anchor, or this one without them.
func (c *common) ourPIDs() []int {
	out := []int{os.Getpid(), c.hand.Anchor}
	if c.opts.Behind != "" {
		out = append(out, c.hand.Parent)
	}
	return out
}

// contain makes the cgroup leaf, with its limits. Where it cannot have those here, systemd may give us a cgroup where it can.
func (t *tree) contain() error {
	made, limited := t.makeLeaf(cgroup.Current())
	if limited != nil && !errors.Is(limited, cgroup.ErrBound) {
		dir, err := t.enterScope()
		if err == nil {
			t.dropLeaf()
			made, limited = t.makeLeaf(dir, nil)
		} else {
			limited = fmt.Errorf("%w; %w; %s", limited, err, limitsCure)
		}
	}
	switch {
	case limited != nil && t.opts.Require:
		return fmt.Errorf("%w: %w", errRequiredLimits, limited)
	case made != nil && t.opts.Cgroup == CgroupRequire:
		return fmt.Errorf("%w: %w", errRequired, made)
	case made != nil && t.opts.Cgroup != CgroupOff:
		t.degrade(made)
	}
	if limited != nil {
		t.log.Warn().Msg(limited.Error())
	}
	return nil
}

// makeLeaf makes the leaf below dir, unless no such cgroup was found, and sets its limits. The errors say why there is no leaf, and
// why not all limits are set.
func (t *tree) makeLeaf(dir string, notFound error) (made, limited error) {
	switch made = notFound; {
	case t.opts.Cgroup == CgroupOff:
		made = errOff
	case made == nil:
		t.scope.Leaf, made = cgroup.Create(dir, leafName(t.hand.ID))
	}
	if made != nil {
		if len(t.opts.Limits) > 0 {
			limited = fmt.Errorf("%w: %w", cgroup.ErrLimits, made)
		}
		return made, limited
	}
	// The end of the leaf must not depend on what can be opened by then.
	t.scope.Leaf.Hold()
	t.record.Cgroup = t.scope.Leaf.Dir
	if len(t.opts.Limits) > 0 {
		limited = t.scope.Leaf.Limit(t.opts.Limits)
	}
	return nil, limited
}

var (
	// errRequired says that the cgroup that the user requires cannot be made, and errOff that the user wants none.
	errRequired = errors.New("--cgroup=require")
	errOff      = errors.New("--cgroup=off")
	// errRequiredLimits says that limits that the user requires cannot be had.
	errRequiredLimits = errors.New("--limits=require")
)

// degrade reports that the containment is weaker than it could be. It is called once at most: a server that enters no leaf
// had one made for it.
func (c *common) degrade(why error) {
	c.log.Debug().Str("why", why.Error()).Msg("containment degraded")
}

// leafName is the name of a session's cgroup.
func leafName(id string) string { return cgroup.Prefix + id }

// spawn starts the server in its leaf. It is born there by clone3. Where that is refused (kernels before 5.7, seccomp
// filters of container engines) or would be fatal (cgroup.Leaf.FD), it moves itself there before it executes anything.
func (t *tree) spawn(c proc.Child) (int, error) {
	leaf := t.scope.Leaf
	if c.CgroupFD >= 0 || leaf == nil {
		if pid, err := proc.Start(c); !errors.Is(err, proc.ErrNotMoved) {
			return pid, err
		}
	}
	c.CgroupFD = -1
	procs, err := leaf.OpenProcs()
	if err == nil {
		c.CgroupProcs = procs
		var pid int
		pid, err = proc.Start(c)
		_ = unix.Close(procs)
		if !errors.Is(err, proc.ErrNotMoved) {
			return pid, err
		}
	}
	if limits := len(t.opts.Limits) > 0; limits && t.opts.Require {
		return 0, fmt.Errorf("%w: %w", errRequiredLimits, err)
	} else if limits {
		t.log.Warn().Err(err).Msg(cgroup.ErrLimits.Error())
	}
	if t.opts.Cgroup == CgroupRequire {
		return 0, fmt.Errorf("%w: %w", errRequired, err)
	}
	c.CgroupProcs = -1
	pid, lastErr := proc.Start(c)
	if lastErr == nil {
		t.degrade(err)
		t.dropLeaf()
	}
	return pid, lastErr
}

// dropLeaf gives up the leaf, because the server is not in it.
func (t *tree) dropLeaf() {
	if t.scope.Leaf = t.removeLeaf(nil); t.scope.Leaf != nil {
		t.leafLeft = true
		t.scope.Leaf.Close()
		t.scope.Leaf = nil
	}
}

// missingFor says what the kernel does not find when it executes a file that is there: of a script the program after "#!", else
// the loader that the program names.
func missingFor(path string) string {
	line := make([]byte, 256) // of more the kernel reads nothing
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	n, _ := f.Read(line)
	rest, script := bytes.CutPrefix(line[:n], []byte("#!"))
	first, _, _ := bytes.Cut(rest, []byte("\n"))
	words := bytes.Fields(first)
	switch {
	case !script || len(words) == 0:
		return "the file is there, but its interpreter or loader is missing"
	case len(words) == 1 && bytes.HasSuffix(first, []byte("\r")):
		return fmt.Sprintf("its first line ends with a carriage return, so that the interpreter %s is not found", words[0])
	}
	return fmt.Sprintf("the interpreter %s of its first line is missing", words[0])
}

func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/bin:/usr/bin"
}

func startCode(err error) int {
	switch {
	case errors.Is(err, errRequired), errors.Is(err, errRequiredLimits):
		return ExitFailure
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ExitNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		return ExitNotExecutable
	}
	return ExitFailure
}
