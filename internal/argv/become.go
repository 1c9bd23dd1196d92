package argv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

const (
	// searchPath is where root finds what it looks users up with. The child, once it is a user, finds no command.
	searchPath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
	noPath     = "/nonexistent"
)

// Why a process cannot become a user.
var (
	errNotRoot = errors.New("only root's passes have a child for a user: use 'mcp-tether reap', 'ps' or 'stop'")
	errRoot    = errors.New("a child for a user must not be root")
)

// Become makes this process the user, with an environment and groups as at a login, and gives up for good what the work for the
// user does not need. A child calls it first, while it is root and no user can stop or trace it. There is no exec after it. The
// memory of a process that has changed its user is closed to that user until an exec opens it.
func Become(uid int) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	u := lookUp(uid)
	if err := u.drop(); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	// The kernel has done so, unless fs.suid_dumpable says otherwise.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close the memory to the user: %w", err)
	}
	// A change of user takes the death signal away (prctl(2)).
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the starter: %w", err)
	}
	unix.Umask(0o077)
	os.Clearenv()
	for name, value := range map[string]string{"PATH": noPath, "HOME": u.home, "USER": u.name, "LOGNAME": u.name} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set the environment of user %d: %w", uid, err)
		}
	}
	debug.SetMemoryLimit(proc.AimMemory)
	// Where it may not be set, it is lower already.
	err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: proc.MaxMemory, Max: proc.MaxMemory})
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// login is a user as at a login.
type login struct {
	uid, gid   int
	groups     []int
	name, home string
}

// nogroup is the group of a user that is in no list (Debian's and the kernel's overflow group).
const nogroup = 65534

// lookUp finds a user in /etc/passwd, which is all that a program without cgo reads by itself, or else by getent and id in the
// machine's other lists (nsswitch.conf(5)). A user that is in none has no groups and no home.
func lookUp(uid int) login {
	number := strconv.Itoa(uid)
	u := login{uid: uid, gid: nogroup, name: number, home: "/nonexistent"}
	gid, groups := "", []string(nil)
	if entry, err := user.LookupId(number); err == nil {
		u.name, u.home, gid = entry.Username, entry.HomeDir, entry.Gid
		groups, _ = entry.GroupIds()
	} else if f := strings.Split(said("getent", "passwd", number), ":"); len(f) == 7 && f[2] == number {
		u.name, u.home, gid = f[0], f[5], f[3]
		groups = strings.Fields(said("id", "-G", "--", u.name))
	}
	if n, err := strconv.Atoi(gid); err == nil {
		u.gid = n
	}
	for _, g := range groups {
		if n, err := strconv.Atoi(g); err == nil {
			u.groups = append(u.groups, n)
		}
	}
	return u
}

// said is what a command says, "" if it fails.
func said(words ...string) string {
	ctx, over := context.WithTimeout(context.Background(), proc.LookUpTime)
	defer over()
	path, err := proc.LookPath(words[0], os.Getenv("PATH"))
	if err != nil {
		return ""
	}
	out, code, err := capture(ctx, path, words)
	if err != nil || code != 0 {
		return ""
	}
	return string(out)
}

// drop changes groups and user of every thread, and checks that it has. Package syscall does that, not package unix.
func (u login) drop() error {
	if err := syscall.Setgroups(u.groups); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	if err := syscall.Setresgid(u.gid, u.gid, u.gid); err != nil {
		return fmt.Errorf("set its group: %w", err)
	}
	if err := syscall.Setresuid(u.uid, u.uid, u.uid); err != nil {
		return fmt.Errorf("set its number: %w", err)
	}
	users, groups := [3]int{u.uid, u.uid, u.uid}, [3]int{u.gid, u.gid, u.gid}
	var is, in [3]int
	is[0], is[1], is[2] = unix.Getresuid()
	in[0], in[1], in[2] = unix.Getresgid()
	if is != users || in != groups || u.uid == 0 {
		return errRoot
	}
	return nil
}
