package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// subject is one way to run a server: a wrapper's words to put in front of the server's own. Bare has none.
type subject struct {
	name string
	wrap []string
	// killWrap is used where the gateway is killed: tini needs to be asked to notice.
	killWrap []string
	missing  bool
}

func (s subject) command(server ...string) []string {
	return append(slices.Clone(s.wrap), server...)
}

func (s subject) killCommand(server ...string) []string {
	if s.killWrap == nil {
		return s.command(server...)
	}
	return append(slices.Clone(s.killWrap), server...)
}

// with is the tethered subject with more flags.
func (b *bench) with(flags ...string) subject {
	s := b.subjects[0]
	s.name = "with " + flags[0]
	s.wrap = slices.Insert(slices.Clone(s.wrap), len(s.wrap)-1, flags...)
	return s
}

func bare() subject { return subject{name: "bare"} }

// findSubjects returns the tethered subject and the peers. A peer that is not installed stays in the list, so that the
// table can say so. A missing binary of our own is an error.
func findSubjects(bin string) ([]subject, error) {
	path, err := exec.LookPath(bin)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("find the binary to measure (make build?): %w", err)
	}
	return []subject{
		{name: "mcp-tether", wrap: []string{path, "run", "--"}},
		peer(subject{
			name:     "tini",
			wrap:     []string{"tini", "-s", "--"},
			killWrap: []string{"tini", "-s", "-g", "-p", "SIGTERM", "--"},
		}),
		peer(subject{
			name: "bubblewrap",
			wrap: []string{"bwrap", "--unshare-pid", "--dev-bind", "/", "/", "--die-with-parent", "--"},
		}),
	}, nil
}

func peer(s subject) subject {
	path, err := exec.LookPath(s.wrap[0])
	if err != nil {
		s.missing = true
		return s
	}
	s.wrap[0] = path
	if s.killWrap != nil {
		s.killWrap[0] = path
	}
	return s
}
