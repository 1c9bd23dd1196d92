package share

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/waiting"
)

// identity is what sessions of one server have in common: all by which a process could tell them apart, and all that a server
// inherits. Left out is what varies from one session of a gateway to the next and binds nothing: the cgroup, oom_score_adj, the
// limits on single cgroups.
func (f *Finder) identity() ([]part, error) {
	gateway := f.gateway
	if f.scope == argv.ScopeUser {
		gateway, f.owner = proc.ID{}, proc.Owner{FD: -1}
	}
	host, err := f.reader.ReadHost()
	if err != nil {
		return nil, err
	}
	program, err := programIdentity()
	if err != nil {
		return nil, err
	}
	directory, err := directories()
	if err != nil {
		return nil, err
	}
	namespaces, err := proc.Namespaces()
	if err != nil {
		return nil, err
	}
	status, err := proc.ReadStatus(os.Getpid())
	if err != nil {
		return nil, err
	}
	if err := f.sameFilters(status); err != nil {
		return nil, err
	}
	found, exact := waiting.Found()
	limits, err := proc.Limits([]uint64{found.Mask, found.Ignored, found.Files, found.MostFiles}, exact)
	if err != nil {
		return nil, err
	}
	return []part{
		{"program", []string{fmt.Sprint(program)}},
		{"command", f.words},
		{"directory", directory},
		{"environment", Environment(proc.Environ(), argv.ShareIgnored(f.words, os.Getenv(argv.EnvIgnored))...)},
		{"gateway", []string{gateway.String()}},
		{"namespaces", []string{host.Boot, fmt.Sprint(namespaces)}},
		{"user", append(status.Fields("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
			"Seccomp", "Seccomp_filters"), proc.Label())},
		{"limits", append(status.Fields("Umask", "Cpus_allowed", "Mems_allowed"), fmt.Sprint(limits))},
	}, nil
}

// programIdentity is the file of this program: another version has other words for its host.
func programIdentity() ([]uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(proc.SelfExe, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", proc.SelfExe, err)
	}
	return []uint64{st.Dev, st.Ino, uint64(st.Size), uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec)}, nil
}

// directories are the working directory, by path and by number because another one may have taken the same path, and the root
// with its mount.
func directories() ([]string, error) {
	path, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	var numbers []uint64
	for _, dir := range []string{".", "/"} {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
			return nil, fmt.Errorf("look at the working directory and the root: %w", err)
		}
		numbers = append(numbers, uint64(st.Dev_major), uint64(st.Dev_minor), st.Ino, st.Mnt_id)
	}
	return []string{path, fmt.Sprint(numbers)}, nil
}

// Environment is what of an environment means something to a server, sorted, without the ignored names. Shells and launchers
// count or note things for themselves, and the working directory is told apart by itself.
func Environment(env []string, ignored ...string) []string {
	counts := make([]string, 0, len(env))
	for _, e := range env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "_", "SHLVL", "PWD", "OLDPWD":
		default:
			if !slices.Contains(ignored, name) {
				counts = append(counts, e)
			}
		}
	}
	slices.Sort(counts)
	return counts
}

var errFiltered = errors.New("see that its seccomp filters are those of the other sessions")

// sameFilters checks that a seccomp filter binds all sessions of the key. Nobody can compare filters. But a process has those of
// its parent, and can only add to them: as many as the gateway has, or with --share-scope=user init, are the same.
func (f *Finder) sameFilters(own proc.Status) error {
	if own.Field("Seccomp") == "0" {
		return nil
	}
	common := f.gateway.PID
	if f.scope == argv.ScopeUser {
		common = 1
	}
	theirs, err := proc.ReadStatus(common)
	if err != nil {
		return errors.Join(errFiltered, err)
	}
	const count = "Seccomp_filters"
	if n := own.Field(count); n == "" || n != theirs.Field(count) {
		return errFiltered
	}
	return nil
}
