package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// What a session takes of that of which its user, or the machine, has only so much. What its server takes is another matter.

// taken counts resources by their names.
type taken map[string]int

// rows are what is counted, the most that a session of each kind may take, and what bounds it: the table in docs/limits.md.
// Of anything else none may be taken. A client of the engine that comes before the starter has gone leaves two descriptors of that.
var rows = []struct {
	name  string
	most  [8]int
	bound string
}{
	{"processes", [8]int{2, 2, 2, 4, 1, 1, 2, 3}, "`RLIMIT_NPROC`, `TasksMax`, with all threads"},
	{"threads", [8]int{2, 2, 14, 16, 1, 1, 15, 15}, "the same"},
	{"descriptors", [8]int{15, 16, 23, 31, 8, 8, 14, 35}, "`RLIMIT_NOFILE`, each process its own"},
	{"pidfds", [8]int{4, 4, 4, 8, 1, 1, 3, 5}, ""},
	{"signalfds", [8]int{2, 2, 2, 3, 1, 1, 1, 2}, ""},
	{"eventfds", [8]int{0, 0, 3, 1, 0, 0, 1, 1}, ""},
	{"epolls", [8]int{0, 0, 1, 0, 0, 0, 0, 1}, ""},
	{"memfds", [8]int{0, 0, 0, 0, 1, 1, 0, 0}, ""},
	{"sockets", [8]int{0, 1, 1, 0, 0, 0, 1, 3}, ""},
	{"pipes", [8]int{0, 0, 0, 3, 0, 0, 2, 3}, "`fs.pipe-user-pages-soft`, 1024 of the usual 16 pages"},
	{"pages of pipes", [8]int{0, 0, 0, 48, 0, 0, 32, 34}, "the same, 16384"},
	{"locks", [8]int{1, 1, 1, 2, 1, 1, 0, 2}, ""},
	{"inotify", [8]int{0, 0, 0, 0, 0, 0, 0, 0}, "`fs.inotify.max_user_instances`, 128"},
	{"signals", [8]int{0, 0, 0, 0, 0, 0, 0, 0}, "`RLIMIT_SIGPENDING`, with timers"},
	{"keys", [8]int{0, 0, 0, 0, 0, 0, 0, 0}, "`kernel.keys.maxkeys`, 200"},
	{"cgroups", [8]int{1, 1, 1, 1, 0, 0, 0, 1}, "`cgroup.max.descendants`"},
	{"files", [8]int{1, 2, 2, 2, 1, 1, 0, 4}, "in the runtime and state directories"},
}

// kind is a kind of session, and how one begins.
type kind struct {
	name  string
	begin func(t *testing.T) holding
}

// kinds are the columns.
var kinds = []kind{
	{"awake", func(t *testing.T) holding { return held(t) }},
	{"engine in sight", func(t *testing.T) holding {
		return heldWith(t, []string{"DOCKER_HOST=" + new(testkit.Engine).Listen(t)}, "--containers=auto")
	}},
	{"engine used", func(t *testing.T) holding {
		h := heldWith(t, []string{"DOCKER_HOST=" + new(testkit.Engine).Listen(t)}, "--containers=auto")
		h.useEngine()
		return h
	}},
	{"with a front", func(t *testing.T) holding { return held(t, "--hibernate=1h") }},
	{"asleep", func(t *testing.T) holding { return held(t, "--hibernate=1ms").alone() }},
	{"not started", func(t *testing.T) holding {
		h := held(t, "--lazy")
		h.clients[0].close()
		h.client() // It says nothing that needs a server.
		return h.alone()
	}},
	{"attached", func(t *testing.T) holding {
		h := held(t, "--share", "--share-linger=1h")
		h.others = h.takes()
		h.meet()
		h.root = h.clients[1].cmd.Process.Pid
		return h
	}},
	{"shared server", func(t *testing.T) holding {
		h := held(t, "--share", "--share-linger=1h")
		h.meet()
		h.root, h.isHost = h.host(), true
		return h
	}},
}

// holding is a session whose own processes are looked at.
type holding struct {
	*sharing
	clients []*sharer
	root    int   // only this process and those below it count, unless it is 0
	others  taken // files and cgroups that are not this session's
	isHost  bool  // root is the host of a shared server
}

// held starts a session, with a client that has met its server.
func held(t *testing.T, flags ...string) holding {
	t.Helper()
	return heldWith(t, nil, append([]string{"--containers=off"}, flags...)...)
}

func heldWith(t *testing.T, env []string, flags ...string) holding {
	t.Helper()
	h := holding{sharing: share(t)}
	h.flags, h.env = flags, env
	for _, name := range []string{"STATE", "CACHE"} {
		h.ok(os.Mkdir(filepath.Join(h.Dir, name), 0o700))
		h.env = append(h.env, "XDG_"+name+"_HOME="+filepath.Join(h.Dir, name))
	}
	h.meet()
	return h
}

func (h *holding) meet() {
	h.t.Helper()
	h.clients = append(h.clients, h.client())
	h.clients[len(h.clients)-1].echo()
}

// alone waits until the session is one process.
func (h holding) alone() holding {
	h.t.Helper()
	h.until("one process", func() bool { return len(h.with()) == 1 })
	return h
}

// useEngine asks the engine by way of the session's socket.
func (h *holding) useEngine() {
	h.t.Helper()
	at := slices.IndexFunc(stage.Describe(h.server()).Environ(), func(v string) bool { return strings.HasPrefix(v, "DOCKER_HOST=") })
	conn, err := net.Dial("unix", strings.TrimPrefix(stage.Describe(h.server()).Environ()[at], "DOCKER_HOST=unix://"))
	h.ok(err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /_ping HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n"))
	h.ok(err)
	var answer [12]byte
	_, err = conn.Read(answer[:])
	h.ok(err)
}

// takes counts what the session's processes have now.
func (h *holding) takes() taken {
	var own, others []proc
	counted := stage.Below(h.root)
	for _, p := range h.with() {
		switch {
		case !p.Runs(tether):
		case h.root == 0 || p.PID == h.root || slices.ContainsFunc(counted, func(q proc) bool { return q.PID == p.PID }):
			own = append(own, p)
		default:
			others = append(others, p)
		}
	}
	once := map[string]bool{}
	if h.isHost { // What it shares with a session was counted there.
		countOnce(others, once)
	}
	got := countOnce(own, once)
	for _, id := range h.Records() {
		if stage.CgroupLeaf(id) != "" {
			got["cgroups"]++
		}
	}
	for _, f := range append(h.files(), glob(h.Dir, "STATE", "mcp-tether", "*")...) {
		if name := filepath.Base(f); !strings.HasPrefix(name, "history.") && !strings.HasPrefix(name, "sweep.") {
			got["files"]++
		}
	}
	for _, row := range []string{"cgroups", "files"} {
		got[row] -= h.others[row]
	}
	return got
}

func glob(path ...string) []string {
	all, _ := filepath.Glob(filepath.Join(path...))
	return all
}

// countOnce counts what processes have. A table of descriptors that two share counts once, and so do pipes, sockets, memories and
// locks: none of those that were counted before.
func countOnce(all []proc, once map[string]bool) taken {
	got := taken{"processes": len(all)}
	for _, p := range all {
		tasks := glob("/proc", strconv.Itoa(p.PID), "task", "*", "status")
		got["threads"] += len(tasks)
		for i, file := range tasks {
			got["signals"] += queued(file, i == 0)
		}
		timers, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", p.PID))
		got["signals"] += strings.Count("\n"+string(timers), "\nID: ")
		if slices.ContainsFunc(all, func(parent proc) bool { return parent.PID == p.PPID && shareDescriptors(parent.PID, p.PID) }) {
			continue
		}
		for _, fd := range glob("/proc", strconv.Itoa(p.PID), "fd", "*") {
			got.add(fd, once)
		}
	}
	return got
}

// shareDescriptors reports whether two processes have one table of descriptors.
func shareDescriptors(one, other int) bool {
	const kcmpFiles = 2
	same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), kcmpFiles, 0, 0, 0)
	return errno == 0 && same == 0
}

// anonymous are the kinds of what has no inode of its own.
var anonymous = map[string]string{
	"[pidfd]": "pidfds", "[signalfd]": "signalfds", "[eventfd]": "eventfds", "[eventpoll]": "epolls", "inotify": "inotify",
}

// add counts a descriptor. One of a kind without a row is counted by its own name.
func (got taken) add(fd string, once map[string]bool) {
	to, err := os.Readlink(fd)
	if err != nil || givenToAll(fd, to) {
		return
	}
	got["descriptors"]++
	info, _ := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
	for _, lock := range lockLine.FindAllStringSubmatch(string(info), -1) {
		got.first("locks", lock[1], once)
	}
	kind, id, _ := strings.Cut(to, ":")
	switch {
	case kind == "pidfd": // its own inode, since Linux 6.9
		got["pidfds"]++
	case kind == "anon_inode":
		if row := anonymous[id]; row != "" {
			id = row
		}
		got[id]++
	case strings.HasPrefix(to, "/memfd:"):
		var st unix.Stat_t
		_ = unix.Stat(fd, &st)
		got.first("memfds", fmt.Sprint("memfd ", st.Ino), once)
	case kind == "socket":
		got.first("sockets", to, once)
	case kind == "pipe" && !once[to] && !clientHas(to):
		got.first("pipes", to, once)
		got["pages of pipes"] += pages(fd)
	}
}

func (got taken) first(row, what string, once map[string]bool) {
	if !once[what] {
		once[what] = true
		got[row]++
	}
}

var lockLine = regexp.MustCompile(`(?m)^lock:.* (\S+:\S+:\d+) `)

// givenToAll reports whether a descriptor is what this test has inherited, and all that it starts.
func givenToAll(fd, to string) bool {
	n, _ := strconv.Atoi(filepath.Base(fd))
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	own, _ := os.Readlink("/proc/self/fd/" + filepath.Base(fd))
	return n > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 && own == to
}

// clientHas reports whether a pipe is between the session and this test, which is its client.
func clientHas(pipe string) bool {
	return slices.ContainsFunc(glob("/proc/self/fd/*"), func(fd string) bool { to, _ := os.Readlink(fd); return to == pipe })
}

// pages is how many a pipe may fill.
func pages(pipe string) int {
	fd, err := unix.Open(pipe, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	size, _ := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	return size / os.Getpagesize()
}

// queued counts the signals that are queued for a thread, and for its whole process.
func queued(status string, whole bool) (n int) {
	b, _ := os.ReadFile(status)
	for line := range strings.Lines(string(b)) {
		if set, ok := strings.CutPrefix(line, "SigPnd:\t"); ok || whole && strings.HasPrefix(line, "ShdPnd:\t") {
			if !ok {
				set = strings.TrimPrefix(line, "ShdPnd:\t")
			}
			for _, digit := range strings.TrimSpace(set) {
				bits, _ := strconv.ParseUint(string(digit), 16, 8)
				for ; bits > 0; bits &= bits - 1 {
					n++
				}
			}
		}
	}
	return n
}

// over says of what there is more than there may be.
func (got taken) over(most taken) (more []string) {
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] > most[name] {
			more = append(more, fmt.Sprintf("%d %s, and not %d", got[name], name, most[name]))
		}
	}
	return more
}

// A session takes no more than the table in docs/limits.md says.
func TestTaken(t *testing.T) {
	t.Parallel()
	for _, c := range kinds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := c.begin(t)
			h.wantAtMost(mostOf(c.name))
		})
	}
}

// mostOf is a column of the table.
func mostOf(name string) taken {
	most, n := taken{}, slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	for _, r := range rows {
		most[r.name] = r.most[n]
	}
	return most
}

// wantAtMost waits until a session takes no more, because what looks at something has it open for a moment.
func (h *holding) wantAtMost(most taken) {
	h.t.Helper()
	var got taken
	h.t.Cleanup(func() { h.t.Logf("%v", got) })
	h.until("no more than the table in docs/limits.md says", func() bool { got = h.takes(); return len(got.over(most)) == 0 })
}

// The control: what a program takes is seen, and so is a session that takes one thing more than the table says.
func TestTakenIsSeen(t *testing.T) {
	t.Parallel()
	pid := startHoard(t, os.Geteuid())
	var got taken
	testkit.Until(t, "a signal and a timer", func() bool { // the timer is the last
		got = countOnce([]proc{stage.Describe(pid)}, map[string]bool{})
		return got["signals"] == 2
	})
	for name, want := range map[string]int{
		"processes": 1, "pidfds": 1, "signalfds": 1, "eventfds": 1, "epolls": 1, "memfds": 1, "sockets": 1, "pipes": 2,
		"pages of pipes": 2 * usualPages, "locks": 1, "inotify": 1,
	} {
		if got[name] != want {
			t.Errorf("%d %s are seen, and there are %d", got[name], name, want)
		}
	}
	if got["threads"] < 2 || got["descriptors"] < 15 {
		t.Errorf("seen: %v", got)
	}
	h := held(t, "--hibernate=1h", "--restart-on="+t.TempDir())
	h.until("one inotify instance too many", func() bool { return slices.Contains(h.takes().over(mostOf("with a front")), "1 inotify, and not 0") })
}

// startHoard starts a program of a user that takes one of each thing.
func startHoard(t *testing.T, uid int) (pid int) {
	t.Helper()
	lock, err := os.CreateTemp("", "hoard") //nolint:usetesting // t.TempDir is closed to other users
	ok(t, err)
	ok(t, lock.Chmod(0o644))
	cmd := exec.Command(fixture, "hoard", lock.Name())
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = lock.Close(); _ = os.Remove(lock.Name()) })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

// usualPages is how many pages a pipe may fill that nobody has changed.
const usualPages = 16

// Keys are counted for a whole user, whom no other test shares.
func TestTakenKeys(t *testing.T) {
	t.Parallel()
	testkit.Need(t, testkit.Root)
	g := startGatewayAs(t, ownUser(t))
	keys := func() (n int) {
		users, err := os.ReadFile("/proc/key-users")
		testkit.Lacks(t, testkit.Kernel, err != nil, "/proc/key-users")
		if _, line, found := strings.Cut(string(users), fmt.Sprintf("\n%5d: ", g.UID)); found {
			_, _ = fmt.Sscan(line, &n)
		}
		return n
	}
	before := keys() // Another run may have left some for a minute.
	s := g.mcpSession(setup{Flags: polite("--hibernate=1h")}, "serve")
	s.greet()
	if n := keys(); n > before {
		t.Errorf("%d keys, and %d before", n, before)
	}
	startHoard(t, g.UID) // the control
	testkit.Lacks(t, testkit.Kernel, keys() <= before, "keys")
	s.leave()
}

// The table in the documents is this one, without the rows that nothing bounds or that no session takes any of.
func TestTakenIsDocumented(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| |")
	for _, k := range kinds {
		b.WriteString(" " + k.name + " |")
	}
	b.WriteString(" what bounds it |\n|" + strings.Repeat("---|", len(kinds)+2) + "\n")
	for _, r := range rows {
		if r.bound == "" || r.most == [8]int{} {
			continue
		}
		b.WriteString("| " + r.name + " |")
		for _, n := range r.most {
			fmt.Fprintf(&b, " %d |", n)
		}
		b.WriteString(" " + r.bound + " |\n")
	}
	page, err := os.ReadFile("../docs/limits.md")
	ok(t, err)
	if !strings.Contains(string(page), "\n\n"+b.String()+"\n") {
		t.Errorf("docs/limits.md lacks this table:\n%s", b.String())
	}
}

// A session whose processes can open next to nothing goes on: no runtime aborts because it can make no poll set.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n 8; exec "$0" run -- /bin/sh -c 'sleep 0.2; exit 7'`, tether)
	cmd.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if o := finish(t, cmd); o.code != 7 || !strings.Contains(o.stderr, "too many open files") || strings.Contains(o.stderr, "runtime") {
		t.Errorf("%+v", o)
	}
}
