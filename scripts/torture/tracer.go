//go:build amd64

package main

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/waiting"
)

// tracer follows the processes of mcp-tether in one session. All of its ptrace requests come from one thread, the one
// that calls loop. The fields below mu are shared with the goroutine that drives the session.
type tracer struct {
	c Case
	// dev and ino are those of the program under test: what executes another file is not traced.
	dev, ino uint64
	census   bool

	tasks map[int]*task
	// strays are tasks that stopped before the event that says whose children they are.
	strays map[int]bool
	// timers resume a delayed task when their process ends.
	timers map[int]int

	mu sync.Mutex
	// pids has the thread group of each role that lives.
	pids   map[string]int
	counts map[string]map[string]int
	// armed says that the first fault has struck, or that there is none.
	armed bool
	// fired describes the call that the shot hit.
	fired string
	ended map[int]unix.WaitStatus
	wake  *sync.Cond
}

// task is one traced thread.
type task struct {
	tid, tgid int
	role      string
	// forks counts the processes that it has forked.
	forks int
	// inCall says that the next stop at a system call is its exit.
	inCall bool
	// atExit is done at the exit of the call.
	atExit func(*task) bool
}

func newTracer(c Case, bin string) (*tracer, error) {
	var st unix.Stat_t
	if err := unix.Stat(bin, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", bin, err)
	}
	t := &tracer{
		c: c, dev: st.Dev, ino: st.Ino, tasks: map[int]*task{}, strays: map[int]bool{}, timers: map[int]int{},
		pids: map[string]int{}, counts: map[string]map[string]int{}, armed: c.First == nil, ended: map[int]unix.WaitStatus{},
		census: c.Shot == nil,
	}
	t.wake = sync.NewCond(&t.mu)
	return t, nil
}

const seizeOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC

// seize begins to trace a process with one thread, which will execute the program under test.
func (t *tracer) seize(pid int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, seizeOptions, 0, 0); errno != 0 {
		return fmt.Errorf("trace process %d: %w", pid, errno)
	}
	t.tasks[pid] = &task{tid: pid, tgid: pid}
	return nil
}

// loop takes every event of every child, for ever: the driver ends the process.
func (t *tracer) loop() {
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			time.Sleep(time.Millisecond)
		case ws.Exited() || ws.Signaled():
			t.gone(tid, ws)
		case ws.Stopped():
			t.stopped(tid, ws)
		}
	}
}

func (t *tracer) gone(tid int, ws unix.WaitStatus) {
	if held, ok := t.timers[tid]; ok {
		delete(t.timers, tid)
		if k := t.tasks[held]; k != nil {
			t.resume(k, 0)
		}
		return
	}
	k := t.tasks[tid]
	delete(t.tasks, tid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if k != nil && k.tid == k.tgid {
		t.leaves(tid)
	}
	t.ended[tid] = ws
	t.wake.Broadcast()
}

// await waits for the end of a child of the sandbox.
func (t *tracer) await(pid int) unix.WaitStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if ws, ok := t.ended[pid]; ok {
			return ws
		}
		t.wake.Wait()
	}
}

// has reports whether a child of the sandbox has ended.
func (t *tracer) has(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.ended[pid]
	return ok
}

func (t *tracer) stopped(tid int, ws unix.WaitStatus) {
	k := t.tasks[tid]
	sig, event := int(ws.StopSignal()), int(ws)>>16
	switch {
	case k == nil:
		t.strays[tid] = true
	case sig == int(unix.SIGTRAP)|0x80:
		t.atCall(k)
	case event == unix.PTRACE_EVENT_FORK, event == unix.PTRACE_EVENT_VFORK, event == unix.PTRACE_EVENT_CLONE:
		t.born(k, event)
	case event == unix.PTRACE_EVENT_EXEC:
		t.executed(k)
	case event == unix.PTRACE_EVENT_STOP && sig != int(unix.SIGTRAP):
		// The process is stopped by job control; SIGCONT must still reach it.
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_LISTEN, uintptr(tid), 0, 0, 0, 0)
	case event != 0:
		t.resume(k, 0)
	default:
		t.resume(k, sig)
	}
}

// resume lets a task go on, to its next system call where that matters.
func (t *tracer) resume(k *task, sig int) {
	request := unix.PtraceCont
	if t.watches(k.role) || k.atExit != nil {
		request = unix.PtraceSyscall
	} else {
		k.inCall = false
	}
	_ = request(k.tid, sig)
}

// leaves forgets the roles of a process.
func (t *tracer) leaves(tgid int) {
	maps.DeleteFunc(t.pids, func(_ string, pid int) bool { return pid == tgid })
}

// watches reports whether the calls of a role, or of what it becomes, still matter.
func (t *tracer) watches(role string) bool {
	if role == "" {
		return false
	}
	if t.census {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fired != "" && !t.c.Shot.Persistent {
		return false
	}
	awaited := func(wanted string) bool { return role == wanted || wanted != "" && withRuntime(role) == wanted }
	return awaited(t.c.Shot.Role) || t.c.First != nil && !t.armed && awaited(t.c.First.Role)
}

// born gives a new task its role: a thread has its creator's role, a process the next.
func (t *tracer) born(k *task, event int) {
	msg, err := unix.PtraceGetEventMsg(k.tid)
	if err == nil {
		tid := int(msg)
		n := &task{tid: tid, tgid: k.tgid, role: k.role}
		if event != unix.PTRACE_EVENT_CLONE {
			k.forks++
			if n.tgid, n.role = tid, childRole(k.role, k.forks); n.role != "" {
				t.enter(n)
			}
		}
		t.tasks[tid] = n
		if t.strays[tid] {
			delete(t.strays, tid)
			t.resume(n, 0)
		}
	}
	t.resume(k, 0)
}

// looksForRoom is how often a process that waits forks to see whether a runtime could have its threads.
const looksForRoom = 5

// childRole is the role of the nth fork of a process, by the order in which package waiting forks. A process that waits and
// is about to become one with a runtime forks only to see whether it can: such a one has no role.
func childRole(role string, n int) string {
	switch {
	case role == roleWaiter && n%(1+looksForRoom) == 1:
		return roleFront
	case role == roleWaiter:
		return ""
	case role == roleFront:
		return roleAnchor
	case role == roleAnchor && n == 1:
		return roleSupervisor
	case role == roleSupervisor && n == 1:
		return roleStarter
	case role == roleAnchor, role == roleSupervisor && n > 2:
		return ""
	}
	return roleChild
}

// withRuntime is what a process that waits becomes when its runtime starts; "" of a process that does not wait.
func withRuntime(role string) string {
	switch role {
	case roleSupervisor:
		return roleEnder
	case roleAnchor:
		return roleRecovery
	}
	return ""
}

func (t *tracer) enter(k *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pids[k.role] = k.tgid
	if t.counts[k.role] == nil {
		t.counts[k.role] = map[string]int{}
	}
}

// fronted reports whether the gateway starts a front.
func (t *tracer) fronted() bool { return modes()[t.c.Mode].sleeps || modes()[t.c.Mode].shares }

// executed tells mcp-tether's processes from the others, which are let go.
func (t *tracer) executed(k *task) {
	var st unix.Stat_t
	dir := fmt.Sprintf("/proc/%d/", k.tgid)
	if err := unix.Stat(dir+"exe", &st); err != nil || st.Dev != t.dev || st.Ino != t.ino {
		t.forget(k)
		return
	}
	role := roleAnchor
	line, _ := os.ReadFile(dir + "cmdline")
	word := strings.Split(string(line), "\x00")
	switch {
	case len(word) < 2 || word[1] == waiting.RoleSession:
	case word[1] != "run":
		role = strings.Trim(word[1], "_-")
	case t.fronted():
		role = roleWaiter
	}
	t.mu.Lock()
	t.leaves(k.tgid)
	t.mu.Unlock()
	k.role, k.tid, k.forks = role, k.tgid, 0
	t.enter(k)
	// PTRACE_EVENT_EXEC comes inside of execve, whose exit is still to come.
	k.inCall = t.watches(role)
	t.resume(k, 0)
}

func (t *tracer) forget(k *task) {
	t.mu.Lock()
	t.leaves(k.tgid)
	t.mu.Unlock()
	delete(t.tasks, k.tid)
	_ = unix.PtraceDetach(k.tid)
}

// syscallInfo is struct ptrace_syscall_info (ptrace(2)) as far as it is the same for entry and exit.
type syscallInfo struct {
	op    uint8
	_     [3]uint8
	arch  uint32
	ip    uint64
	sp    uint64
	nr    uint64
	args  [6]uint64
	_     uint64
	extra [2]uint64
}

func (t *tracer) atCall(k *task) {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(k.tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		t.resume(k, 0)
		return
	}
	k.inCall = info.op == unix.PTRACE_SYSCALL_INFO_ENTRY
	if k.inCall {
		if t.atEntry(k, info) {
			t.resume(k, 0)
		}
		return
	}
	act := k.atExit
	k.atExit = nil
	if act == nil || act(k) {
		t.resume(k, 0)
	}
}

// runtimeStarts is the first call of a Go runtime that a process without one never makes.
const runtimeStarts = unix.SYS_SCHED_GETAFFINITY

// hasRuntime reports whether a role is one with a Go runtime, at least for most of its life.
func hasRuntime(role string) bool {
	return withRuntime(role) == "" && role != roleChild && role != roleWaiter
}

// atEntry counts the call and injects what the case wants. It reports whether the task goes on.
func (t *tracer) atEntry(k *task, info syscallInfo) bool {
	call := callName(info.nr)
	if later := withRuntime(k.role); later != "" && info.nr == runtimeStarts {
		k.role = later
		t.enter(k)
	}
	if hasRuntime(k.role) && uncounted(call) {
		return true
	}
	t.mu.Lock()
	counts := t.counts[k.role]
	if counts == nil {
		counts = map[string]int{}
		t.counts[k.role] = counts
	}
	counts[call]++
	n := counts[call]
	first := t.c.First
	strikes := !t.armed && first != nil && k.role == first.Role && first.At == fmt.Sprintf("%s.%d", call, n)
	s := t.c.Shot
	shot := t.armed && s != nil && k.role == s.Role && call == s.Call && (n == s.N || s.Persistent && n > s.N)
	if shot {
		shot = believable(s.Fault, call, fdLink(k.tgid, info.args[0]))
	}
	if shot && t.fired == "" {
		t.fired = describe(k, call, info)
	}
	t.mu.Unlock()
	if strikes {
		t.strikeFirst()
		return true
	}
	if !shot {
		return true
	}
	return t.inject(k, call, s.Fault)
}

func (t *tracer) inject(k *task, call, fault string) bool {
	switch fault {
	case faultKillBefore:
		_ = unix.Kill(k.tgid, unix.SIGKILL)
	case faultKillAfter:
		k.atExit = func(k *task) bool { _ = unix.Kill(k.tgid, unix.SIGKILL); return true }
	case faultStop:
		k.atExit = func(k *task) bool { _ = unix.Kill(k.tgid, unix.SIGSTOP); return true }
	case faultDelay:
		return !t.hold(k)
	default:
		errno, _ := errnoByName(fault)
		if !executed(call) {
			setRegs(k.tid, func(r *unix.PtraceRegs) { r.Orig_rax = ^uint64(0) })
		}
		k.atExit = func(k *task) bool {
			setRegs(k.tid, func(r *unix.PtraceRegs) { r.Rax = uint64(-int64(errno)) })
			return true
		}
	}
	return true
}

func setRegs(tid int, change func(*unix.PtraceRegs)) {
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &r) == nil {
		change(&r)
		_ = unix.PtraceSetRegs(tid, &r)
	}
}

// hold keeps a task where it is until a process that does nothing else has slept for it.
func (t *tracer) hold(k *task) bool {
	pid, err := spawn("/bin/sleep", faultyDelay)
	if err != nil {
		return false
	}
	t.timers[pid] = k.tid
	return true
}

// strikeFirst kills the role of the first fault; the calls of the second are counted from here.
func (t *tracer) strikeFirst() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed {
		return
	}
	t.armed = true
	t.counts = map[string]map[string]int{}
	if pid := t.pids[t.c.First.Role]; pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func (t *tracer) result() (fired string, counts map[string]map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts = map[string]map[string]int{}
	for role, calls := range t.counts {
		counts[role] = maps.Clone(calls)
	}
	return t.fired, counts
}

// describe says what a call is about: what its first two arguments are, as descriptor and as text.
func describe(k *task, call string, info syscallInfo) string {
	a := info.args
	return fmt.Sprintf("%s(%#x <%s> %q, %#x %q, %#x)", call, a[0], fdLink(k.tgid, a[0]), peekString(k.tgid, a[0]), a[1], peekString(k.tgid, a[1]), a[2])
}

// fdLink says what a descriptor refers to.
func fdLink(pid int, fd uint64) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd)))
	if err != nil {
		return "?"
	}
	return link
}

func peekString(pid int, addr uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "?"
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := f.ReadAt(b, int64(addr))
	s, _, _ := strings.Cut(string(b[:n]), "\x00")
	return s
}
