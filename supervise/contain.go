package supervise

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
)

// contain makes the cgroup leaf, with its limits. Where it cannot have those here, systemd may give us a cgroup where it can.
func (t *tree) contain() error {
	made, limited := t.makeLeaf(cgroup.Current())
	if limited != nil && !errors.Is(limited, cgroup.ErrBound) {
		dir, err := t.enterScope()
		if err == nil {
			t.removeLeaf() // The server is not in it.
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
	switch made = canMove(); {
	case t.opts.Cgroup == CgroupOff:
		made = errOff
	case notFound != nil:
		made = notFound
	case made == nil:
		t.members.Leaf, made = cgroup.Create(dir, leafName(t.id))
	}
	if made != nil {
		if len(t.opts.Limits) > 0 {
			limited = fmt.Errorf("%w: %w", cgroup.ErrLimits, made)
		}
		return made, limited
	}
	t.record.Cgroup = t.members.Leaf.Dir
	if len(t.opts.Limits) > 0 {
		limited = t.members.Leaf.Limit(t.opts.Limits)
	}
	return nil, limited
}

// canMove reports why no process can be made in a leaf: the kernel or a filter of system calls refuses clone3(2). Asked for
// nothing, it says EINVAL where it is there.
func canMove() error {
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.EINVAL {
		return fmt.Errorf("make a process in a cgroup: clone3: %w", errno)
	}
	return nil
}

var (
	// errRequired says that the cgroup that the user requires cannot be made, and errOff that the user wants none.
	errRequired = errors.New("--cgroup=require")
	errOff      = errors.New("--cgroup=off")
	// errRequiredLimits says that limits that the user requires cannot be had.
	errRequiredLimits = errors.New("--limits=require")
)

// degrade reports that the containment is weaker than it could be.
func (c *common) degrade(why error) {
	c.log.Debug().Str("why", why.Error()).Msg("containment degraded")
}

// leafName is the name of a session's cgroup.
func leafName(id string) string { return cgroup.Prefix + id }
