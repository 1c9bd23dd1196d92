package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shirou/gopsutil/v3/mem"
	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// machine checks the kernel and what this user may do with it. runtime is $XDG_RUNTIME_DIR. A file system that does
// not answer costs only the checks that need it.
func machine(runtime string) (all []check) {
	for _, c := range []struct {
		about string
		check func() check
	}{
		{"program", program},
		{"kernel", kernel},
		{"cgroup", leaf},
		{"processes", processes},
		{"sockets", sockets},
		{"records", func() check { return records(runtime) }},
		{"limits", limits},
		{"memory", memory},
	} {
		all = append(all, inTime(c.about, "a file", func() []check { return []check{c.check()} })...)
	}
	return append(all, inTime("engine", "its socket", askEngine)...)
}

// program asks whether clients find this program by its name.
func program() check {
	own, err := os.Executable()
	if err != nil {
		return warn("", "its path is not known: %v", err)
	}
	found, err := exec.LookPath(clients.Program)
	if err != nil {
		return warn("add "+filepath.Dir(own)+" to PATH; wrap writes the whole path until then", "%s is not found by its name", own)
	}
	a, errA := os.Stat(own)
	b, errB := os.Stat(found)
	// The launcher of our npm package becomes this program, which is not beside it: so it is after an installation without scripts.
	target, _ := filepath.EvalSymlinks(found)
	if errA == nil && errB == nil && !os.SameFile(a, b) && !strings.HasSuffix(target, "/node_modules/mcp-tether/mcp-tether") {
		return warn("remove one of the two", "clients that look for mcp-tether find %s, and this is %s", found, own)
	}
	return good("%s", found)
}

// kernel asks for what is used: pidfds (Linux 5.4), cgroup.kill (5.14), and that orphans fall to who asks for them.
func kernel() check {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release := unix.ByteSliceToString(u.Release[:])
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if errors.Is(err, unix.ENOSYS) {
		return fail("Linux 5.4 or newer", "%s has no pidfds: run starts nothing", release)
	}
	if err != nil {
		return warn("a seccomp filter that allows pidfd_open(2)",
			"%s: no pidfds (%v); the end of a gateway is noticed by its streams and by asking every %v", release, err, proc.LookPause)
	}
	_ = unix.Close(fd)
	if err := proc.BecomeSubreaper(); err != nil {
		return warn("a kernel with PR_SET_CHILD_SUBREAPER (qemu-user and old gVisor have none)",
			"%v: orphans of a server are not found without a cgroup", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err == nil && (major < 5 || major == 5 && minor < 14) {
		return warn("Linux 5.14 or newer", "%s has no cgroup.kill: sessions get no cgroup", release)
	}
	return good("%s", release)
}

// delegateAdvice says how to get a cgroup in which leaves can be made.
const delegateAdvice = "a unit with Delegate=yes, or: systemd-run --user --scope -p Delegate=yes COMMAND (docs/systemd.md)"

// leaf makes a cgroup as a session does, and removes it.
func leaf() check {
	const without = "sessions rely on parentage and the process table"
	own, err := cgroup.Current()
	if errors.Is(err, cgroup.ErrNone) {
		return warn("mount cgroup v2 where servers run", "%v: %s", err, without)
	}
	var l *cgroup.Leaf
	if err == nil {
		l, err = cgroup.Create(own, cgroup.Prefix+session.NewID())
	}
	if err != nil {
		return warn(delegateAdvice, "%v: %s", err, without)
	}
	defer l.Close()
	if err := l.Remove(); err != nil {
		return fail("remove it by hand: rmdir "+l.Dir, "an empty cgroup was made and cannot be removed: %v", err)
	}
	return good("each session gets one of its own below %s", own)
}

// processes asks what can be seen of processes.
func processes() check {
	switch v := proc.See(); {
	case !v.Table:
		return fail("mount -t proc proc on the directory that procfs belongs on", "procfs is not mounted: what a server has started cannot be found")
	case !v.Children:
		return warn("a kernel with CONFIG_PROC_CHILDREN", "no lists of children: the whole process table is read instead")
	case !v.Others:
		return warn("nothing, unless reap should look after other users: then run it as root",
			"those of other users are hidden (hidepid): reap sees your own")
	}
	return good("all can be seen")
}

// sockets asks whether the other end of a socket can be found, as reap does for servers that were never wrapped.
func sockets() check {
	if err := evidence.FindsPeers(); err != nil {
		return warn("a kernel with CONFIG_UNIX_DIAG, and a seccomp filter that allows netlink sockets",
			"sock_diag(7) cannot be asked (%v): reap cannot tell whether a server with a socket as its stdin is in use, and leaves it", err)
	}
	return good("the other end of a server's streams can be found")
}

func records(runtime string) check {
	dir, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		return fail("make the directory yours, with mode 0700, or set XDG_RUNTIME_DIR to one that is",
			"%v: without a record, ps does not show a session, and reap has less to go by", err)
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(dir.Name, &st); err == nil && st.Bavail == 0 {
		return fail("make room on that file system", "%s is on a full file system", dir.Name)
	}
	return good("kept in %s", dir.Name)
}

// sessionProcesses is how many processes and threads a session may want at once. It has two processes with a few
// threads each, and a server with some helpers.
const sessionProcesses = 100

// fewFiles is a limit of open files below which servers fail. Node.js alone needs about 20.
const fewFiles = 64

// openFiles is the limit of open files that a server would inherit. The Go runtime has raised our own.
func openFiles() (uint64, bool) {
	if found, ok := waiting.Found(); ok {
		return found.Files, true
	}
	var own unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own)
	return own.Cur, err == nil
}

// limits checks what keeps processes from being started.
func limits() check {
	if files, ok := openFiles(); ok && files < fewFiles {
		return warn("ulimit -n 1024, or LimitNOFILE= of the unit", "only %d open files are allowed", files)
	}
	var use cgroup.Use // The root of the hierarchy has no limit.
	if own, err := cgroup.Current(); err == nil {
		if l, err := cgroup.Open(own); err == nil {
			use = l.Use()
			l.Close()
		}
	}
	if use.PidsMax > 0 && use.PidsMax < use.Pids+sessionProcesses {
		return warn("raise TasksMax= of the unit, or --pids-limit of the container", "%d of %d processes are used in this cgroup", use.Pids, use.PidsMax)
	}
	return good("nothing in the way")
}

// scarceDivisor gives the part of the memory, as a divisor, below which the kernel is close to killing processes.
const scarceDivisor = 10

// memory checks how much memory the machine has left: often nothing else shows leaked servers.
func memory() check {
	m, err := mem.VirtualMemory()
	switch {
	case err != nil, m.Total == 0: // What cannot be read is 0 there.
		return warn("mount -t proc proc on the directory that procfs belongs on", "it is not known how much there is")
	case m.Available < m.Total/scarceDivisor:
		return warn("mcp-tether reap shows what leaked; mcp-tether ps shows what living sessions hold",
			"%s of %s are available", display.Size(m.Available), display.Size(m.Total))
	}
	return good("%s of %s are available", display.Size(m.Available), display.Size(m.Total))
}

// askEngine asks the container engine that a session's clients would use, if one is in sight.
func askEngine() []check {
	e, ok, err := engine.Resolve(os.Getenv(engine.EnvURL), os.Getenv)
	if err != nil {
		return []check{warn("docker context ls, or --containers=off for sessions without one", "containers do not end with their session: %v", err)}
	}
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), proc.EngineTime)
	defer cancel()
	if err := (engine.Client{Dial: e.Dial}).Ping(ctx); err != nil {
		return []check{warn("start it, or give the user access to its socket; --containers=off for sessions without one", "%s (%s): %v", e.URL, e.From, err)}
	}
	return []check{good("%s (%s) answers: containers end with their session", e.URL, e.From)}
}
