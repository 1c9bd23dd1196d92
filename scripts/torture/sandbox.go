//go:build amd64

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// Places in the sandbox, all on file systems of its own.
const (
	runDir       = "/run"
	recordDir    = "/run/mcp-tether"
	logDir       = "/run/log"
	logFile      = "/run/log/tether.log"
	helloSocket  = "/run/hello.sock"
	goFIFO       = "/run/go"
	engineSocket = "/run/engine.sock"
	stderrFile   = "/run/stderr"
	programFile  = "/run/bin/mcp-tether"
	selfFile     = "/run/bin/torture"
	cgroupRoot   = "/sys/fs/cgroup"
)

const (
	// startBound is how long a session may take to come up, to fall asleep or to wake before it is ended all the same.
	startBound = 3000 * time.Millisecond
	// faultyDelay is how long a delayed call waits: longer than the graces.
	faultyDelay = 200 * time.Millisecond
	// watchdogBound is how long after the bound the anchor's watchdog may take to end a session that does not end by itself.
	watchdogBound = 6 * time.Second
	// settle is how long processes may take to disappear when none of mcp-tether is left to end them.
	settle = 300 * time.Millisecond
	// scanPause is between two looks at the process table.
	scanPause = 8 * time.Millisecond
	// reapBound is how long `reap --kill` may take.
	reapBound = 10 * time.Second
	// reapTries and reapPause are how often it is tried again.
	reapTries = 3
	reapPause = 300 * time.Millisecond
)

// Verdicts on a case.
const (
	verdictOK     = "ok"
	verdictReaped = "reaped" // left nothing that lives, or may leave it, and reap --kill cleared it
	verdictNamed  = "named"  // left processes that the closing event names, and reap --kill cleared the record
	verdictLate   = "late"   // ended by the anchor's watchdog, later than the bound
	verdictLeak   = "leak"
	verdictHang   = "hang"
	verdictLitter = "litter"  // no process is left, but a record, leaf or container that reap does not clear
	verdictHarm   = "harm"    // a process was hit that does not belong to the session
	verdictBroken = "invalid" // the case itself could not be run
)

// Result is what a sandbox reports.
type Result struct {
	Case    string `json:"case"`
	Verdict string `json:"verdict"`
	// Fired describes the call that was hit; "" when the session made fewer such calls.
	Fired string `json:"fired,omitempty"`
	// Ready says that server and helpers came up.
	Ready bool `json:"ready"`
	// Left lists what was left at the end of the bound, AfterReap what reap --kill left of it.
	Left      []string `json:"left,omitempty"`
	AfterReap []string `json:"after_reap,omitempty"`
	// Leaked is what the closing event says, Events how many of them there were.
	Leaked bool   `json:"leaked,omitempty"`
	Events int    `json:"events"`
	Status string `json:"status,omitempty"`
	// Milliseconds is from the ending, or the end of the start, to the end of the last process.
	Milliseconds int64                     `json:"ms"`
	Counts       map[string]map[string]int `json:"counts,omitempty"`
	Stderr       string                    `json:"stderr,omitempty"`
	// Log is all that was logged, where logs are kept.
	Log string `json:"log,omitempty"`
	Why string `json:"why,omitempty"`
}

// sandbox is the first process of a case's pid namespace.
type sandbox struct {
	c      Case
	m      mode
	bound  time.Duration
	tracer *tracer
	hello  int // datagrams of the processes that have come up
	engine *testkit.Engine
	log    *os.File // the log file that was removed

	bystander, gateway, launched int
	control                      int // the gateway's standard input
	greeted                      map[string]int
	startBy                      time.Time
	result                       Result
}

// sandboxRole runs one case: __sandbox ID PROGRAM BOUND; the result goes to descriptor 3.
func sandboxRole(args []string) {
	s := &sandbox{greeted: map[string]int{}}
	if err := s.open(args); err != nil {
		s.report(verdictBroken, err.Error())
	}
	go s.drive()
	s.tracer.loop()
}

func (s *sandbox) open(args []string) error {
	c, err := parseCase(args[0])
	if err != nil {
		return err
	}
	s.c, s.m, s.result.Case = c, modes()[c.Mode], args[0]
	if s.bound, err = time.ParseDuration(args[2]); err != nil {
		return err
	}
	if err := isolate(args[1]); err != nil {
		return err
	}
	if s.tracer, err = newTracer(c, programFile, faultyDelay); err != nil {
		return err
	}
	if s.hello, err = listenHello(); err != nil {
		return err
	}
	if s.m.engine {
		if s.engine, err = startEngine(); err != nil {
			return err
		}
	}
	return s.launch()
}

// isolate gives the sandbox file systems of its own, in the mount namespace that it already has.
func isolate(program string) error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"tmpfs", runDir, "tmpfs", 0},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(programFile), 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for target, source := range map[string]string{programFile: program, selfFile: self} {
		if err := os.WriteFile(target, nil, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", source, err)
		}
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /tmp: %w", err)
	}
	_ = unix.Unmount(cgroupRoot, unix.MNT_DETACH)
	if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", cgroupRoot, err)
	}
	if err := os.Mkdir(logDir, 0o700); err != nil {
		return err
	}
	return unix.Mkfifo(goFIFO, 0o600)
}

func listenHello() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: helloSocket}); err != nil {
		return -1, fmt.Errorf("bind %s: %w", helloSocket, err)
	}
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 5000})
}

// launch starts the bystander, and the gateway up to the exec of mcp-tether, which is traced from there on.
func (s *sandbox) launch() error {
	var err error
	if s.bystander, err = spawn(nil, "__helper", "bystander"); err != nil {
		return err
	}
	stderr, err := unix.Open(stderrFile, unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	var in [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if s.gateway, err = spawn([]int{in[0], stderr, stderr}, append([]string{"__gateway"}, s.command()...)...); err != nil {
		return err
	}
	unix.Close(in[0])
	unix.Close(stderr)
	s.control = in[1]
	for deadline := time.Now().Add(5 * time.Second); s.greeted["launch"] == 0; {
		if time.Now().After(deadline) {
			return fmt.Errorf("the gateway did not start within 5 s")
		}
		s.listen()
	}
	s.launched = s.greeted["launch"]
	if err := s.tracer.seize(s.launched); err != nil {
		return err
	}
	fd, err := unix.Open(goFIFO, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte{1})
	unix.Close(fd)
	return err
}

// command is what the gateway executes.
func (s *sandbox) command() []string {
	kind := "polite"
	if s.m.deaf {
		kind = "deaf"
	}
	server := []string{selfFile, "__server", kind}
	if s.m.bare {
		return server
	}
	words := append([]string{programFile, "run"}, commonFlags()...)
	if logsAll() {
		words = append(words, "--log-level=debug", "--log-file="+logFile)
	}
	return append(append(append(words, s.m.flags...), "--"), server...)
}

// environment is that of the gateway and of reap.
func environment(m mode) []string {
	return append([]string{"PATH=/usr/bin:/bin", "HOME=/run", "TMPDIR=/tmp", "XDG_STATE_HOME=/tmp"}, m.env...)
}

// spawn starts a role of this binary with the given standard streams, /dev/null where there are none.
func spawn(streams []int, args ...string) (int, error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(null)
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	for i, fd := range streams {
		files[i] = uintptr(fd)
	}
	return syscall.ForkExec("/proc/self/exe", append([]string{"torture"}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: files})
}

// listen takes one greeting, or waits a few milliseconds: "NAME PID".
func (s *sandbox) listen() {
	var b [64]byte
	n, _, err := unix.Recvfrom(s.hello, b[:], 0)
	if err != nil {
		return
	}
	name, pid, _ := strings.Cut(string(b[:n]), " ")
	s.greeted[name], _ = strconv.Atoi(pid)
}

// helpers are the processes that the server starts.
func helpers() []string { return []string{"plain", "detached", "cleared", "deaf"} }

// up waits for server and helpers.
func (s *sandbox) up() bool {
	for n := 1; time.Now().Before(s.startBy); n++ {
		s.listen()
		missing := s.greeted["server"] == 0
		for _, h := range helpers() {
			missing = missing || s.greeted[h] == 0
		}
		if !missing {
			return true
		}
		// A session that failed to start need not be waited for. A datagram is waited for 5 ms.
		if n%8 == 0 && len(s.members()) == 0 {
			return false
		}
	}
	return false
}

// drive takes the session through its life and judges what is left.
func (s *sandbox) drive() {
	s.startBy = time.Now().Add(startBound)
	if s.m.shares {
		s.tell("handshake")
	}
	s.result.Ready = s.up()
	if s.result.Ready && s.m.sleeps {
		s.result.Ready = s.sleepAndWake()
	}
	if s.result.Ready {
		s.atReady()
	}
	began := time.Now()
	s.end()
	verdict, why := s.judge(began)
	s.report(verdict, why)
}

func (s *sandbox) atReady() {
	if s.m.unlogged {
		// A process that holds the file open can still write to it, and we can still read it.
		s.log, _ = os.Open(logFile)
		_ = os.RemoveAll(logDir)
	}
	if s.c.First != nil && s.c.First.At == atReady {
		s.tracer.strikeFirst()
		// What is left of mcp-tether ends the session by itself.
		s.emptyWithin(startBound)
	}
}

// sleepAndWake waits until the server sleeps, wakes it, and waits until it is up again.
func (s *sandbox) sleepAndWake() bool {
	s.startBy = time.Now().Add(startBound)
	for s.tell("handshake"); s.awake(); time.Sleep(scanPause) {
		if time.Now().After(s.startBy) {
			return false
		}
	}
	clear(s.greeted)
	s.startBy = time.Now().Add(startBound)
	s.tell("wake")
	return s.up()
}

// awake reports whether a process of the server's tree lives.
func (s *sandbox) awake() bool {
	for _, p := range s.members() {
		if !p.tether {
			return true
		}
	}
	return false
}

func (s *sandbox) tell(word string) { _, _ = unix.Write(s.control, []byte(word+"\n")) }

func (s *sandbox) end() {
	switch s.c.Ending {
	case endTerm:
		if !s.tracer.has(s.launched) {
			_ = unix.Kill(s.launched, unix.SIGTERM)
		}
	case endEOF:
		s.tell("close")
	default:
		_ = unix.Kill(s.gateway, unix.SIGKILL)
	}
	if s.c.First != nil && s.c.First.At == atEnding {
		time.Sleep(30 * time.Millisecond)
		s.tracer.strikeFirst()
	}
}

// process is one that belongs to the session.
type process struct {
	pid    int
	name   string
	tether bool
}

func (p process) String() string { return p.name + " " + strconv.Itoa(p.pid) }

// members lists the session's processes: whatever lives in the namespace but sandbox, bystander, gateway and timers.
func (s *sandbox) members() []process {
	entries, _ := os.ReadDir("/proc")
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == s.bystander || pid == s.gateway {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if len(rest) == 0 || rest[0] == 'Z' || rest[0] == 'X' || pid == s.launched && s.anchorStopped(rest[0]) {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		word := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if len(word) > 1 && word[1] == "__timer" {
			continue
		}
		out = append(out, s.identify(pid, word, rest[0]))
	}
	return out
}

// anchorStopped reports whether the anchor is in the state into which its fault puts it. A stopped anchor cannot end, but
// must hold nothing back.
func (s *sandbox) anchorStopped(state byte) bool {
	return s.c.Shot != nil && s.c.Shot.Fault == faultStop && s.c.Shot.Role == roleAnchor && (state == 'T' || state == 't')
}

func (s *sandbox) identify(pid int, word []string, state byte) process {
	p := process{pid: pid, name: filepath.Base(word[0])}
	var program, st unix.Stat_t
	same := unix.Stat(programFile, &program) == nil && unix.Stat("/proc/"+strconv.Itoa(pid)+"/exe", &st) == nil && program.Ino == st.Ino && program.Dev == st.Dev
	switch {
	case same && len(word) > 1:
		p.tether, p.name = true, "mcp-tether "+word[1]
	case len(word) > 2 && strings.HasPrefix(word[1], "__"):
		p.name = strings.TrimPrefix(word[1], "__") + " " + word[2]
	}
	if state != 'S' && state != 'R' {
		p.name += " (" + string(state) + ")"
	}
	return p
}

// emptyWithin waits until no process of the session is left, or none that could end the others, and gives what is left.
// Time counts only while the sandbox itself gets to run: on a machine that stands still nothing else can end either.
func (s *sandbox) emptyWithin(bound time.Duration) []process {
	var waited, orphaned time.Duration
	for last := time.Now(); ; {
		left := s.members()
		if len(left) == 0 {
			return nil
		}
		tether := false
		for _, p := range left {
			tether = tether || p.tether
		}
		now := time.Now()
		step := min(now.Sub(last), 4*scanPause)
		last = now
		waited += step
		if orphaned += step; tether {
			orphaned = 0
		}
		if waited > bound || orphaned > settle {
			return left
		}
		time.Sleep(scanPause)
	}
}

func (s *sandbox) judge(began time.Time) (verdict, why string) {
	left := s.emptyWithin(s.bound)
	verdict = verdictOK
	if slices.ContainsFunc(left, func(p process) bool { return p.tether }) {
		verdict, left = verdictLate, s.emptyWithin(watchdogBound)
	}
	s.result.Milliseconds = time.Since(began).Milliseconds()
	s.readEvents()
	for _, p := range left {
		text := p.String()
		if p.tether {
			verdict, text = verdictHang, text+threads(p.pid)
		}
		s.result.Left = append(s.result.Left, text)
	}
	if len(left) > 0 && verdict != verdictHang && !s.result.Leaked {
		verdict = verdictLeak
	}
	if s.tracer.has(s.bystander) {
		return verdictHarm, "the bystander is dead"
	}
	litter := s.litter()
	s.result.Left = append(s.result.Left, litter...)
	if s.m.bare || len(left)+len(litter) == 0 {
		return verdict, ""
	}
	return s.afterReap(verdict)
}

// threads says what each thread of a hanging process does: its state, and the system call that it is in.
func threads(pid int) string {
	var out []string
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		stat, _ := os.ReadFile(dir + "/" + e.Name() + "/stat")
		state := "?"
		if i := strings.LastIndexByte(string(stat), ')'); i > 0 && i+2 < len(stat) {
			state = string(stat[i+2])
		}
		call, _ := os.ReadFile(dir + "/" + e.Name() + "/syscall")
		word := strings.Fields(string(call))
		if len(word) == 0 {
			word = []string{"?"}
		}
		if nr, err := strconv.ParseUint(word[0], 10, 64); err == nil {
			word[0] = callName(nr)
		}
		out = append(out, state+" "+word[0])
	}
	return " [" + strings.Join(out, ", ") + "]"
}

// afterReap has reap clear what was left.
func (s *sandbox) afterReap(verdict string) (string, string) {
	why := s.reap()
	// A supervisor that was killed a moment ago may still be on its way out, and counts as alive until it is gone.
	for range reapTries {
		if len(s.litter()) == 0 {
			break
		}
		time.Sleep(reapPause)
		why = s.reap()
	}
	live := s.emptyWithin(settle)
	for _, p := range live {
		s.result.AfterReap = append(s.result.AfterReap, p.String())
	}
	litter := s.litter()
	s.result.AfterReap = append(s.result.AfterReap, litter...)
	switch {
	case verdict == verdictLeak && (s.m.alone && s.crashed() || s.c.killsBoth()) && len(live)+len(litter) == 0:
		return verdictReaped, ""
	case verdict != verdictOK && verdict != verdictLate:
		return verdict, why
	case len(litter) > 0:
		return verdictLitter, why
	case len(live) > 0:
		return verdictNamed, why
	}
	return verdictReaped, ""
}

// crashed reports whether the process that the gateway started was killed, or ended as a crashed Go program does.
func (s *sandbox) crashed() bool {
	if !s.tracer.has(s.launched) {
		return false
	}
	ws := s.tracer.await(s.launched)
	return ws.Signaled() || ws.ExitStatus() == 2
}

// litter lists what the session left on disk, in the cgroup hierarchy and in the engine.
func (s *sandbox) litter() []string {
	var out []string
	files, _ := os.ReadDir(recordDir)
	for _, f := range files {
		// The secret stays. What a killed host leaves is removed once it is old (session.HasDeadPlaces). A killed sweep leaves
		// its lock to the next one.
		if f.Name() != "reap.lock" && f.Name() != "sweep.lock" && !strings.HasPrefix(f.Name(), "share") {
			out = append(out, "file "+f.Name())
		}
	}
	_ = filepath.WalkDir(cgroupRoot, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != cgroupRoot {
			out = append(out, "cgroup "+strings.TrimPrefix(name, cgroupRoot+"/"))
		}
		return nil
	})
	if s.engine != nil {
		out = append(out, containersLeft(s.engine)...)
	}
	return out
}

// reap runs `mcp-tether reap --kill`, and says how it ended and what all runs have said so far.
func (s *sandbox) reap() string {
	file, err := unix.Open("/run/reap.out", unix.O_CREAT|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(file)
	pid, err := syscall.ForkExec(programFile, []string{"mcp-tether", "reap", "--kill", "--term-grace=50ms", "--kill-timeout=1s"}, &syscall.ProcAttr{
		Env: environment(s.m), Files: []uintptr{uintptr(file), uintptr(file), uintptr(file)},
	})
	if err != nil {
		return "start reap: " + err.Error()
	}
	stop := time.AfterFunc(reapBound, func() { _ = unix.Kill(pid, unix.SIGKILL) })
	ws := s.tracer.await(pid)
	stop.Stop()
	out, _ := os.ReadFile("/run/reap.out")
	return fmt.Sprintf("reap: %s: %s", describeStatus(ws), out)
}

func describeStatus(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return ws.Signal().String()
	}
	return "exit " + strconv.Itoa(ws.ExitStatus())
}

// readEvents finds the closing events in what mcp-tether logged.
func (s *sandbox) readEvents() {
	b, _ := os.ReadFile(stderrFile)
	if s.log != nil {
		more, _ := io.ReadAll(s.log)
		b = append(more, b...)
	}
	if s.m.shares || logsAll() { // Nobody may be left to pass standard error on to.
		more, _ := os.ReadFile(logFile)
		b = append(more, b...)
	}
	if logsAll() {
		s.result.Log = string(b)
	}
	for line := range strings.Lines(string(b)) {
		var event struct {
			Message string `json:"message"`
			Leaked  bool   `json:"leaked"`
		}
		if json.Unmarshal([]byte(line), &event) != nil {
			continue
		}
		// The session behind a front tells of what it has left in an event of its own.
		s.result.Leaked = s.result.Leaked || event.Leaked
		if event.Message == "session ended" {
			s.result.Events++
		}
	}
	const most = 1500
	if len(b) > most {
		b = append(b[:most:most], "..."...)
	}
	s.result.Stderr = string(b)
}

// report writes the result and ends the sandbox, and with it everything in it.
func (s *sandbox) report(verdict, why string) {
	s.result.Verdict, s.result.Why = verdict, why
	if s.tracer != nil {
		s.result.Fired, s.result.Counts = s.tracer.result()
		if s.tracer.has(s.launched) {
			s.result.Status = describeStatus(s.tracer.await(s.launched))
		}
		if s.c.Shot != nil {
			s.result.Counts = nil
		}
	}
	if verdict == verdictOK {
		s.result.Stderr = ""
	}
	b, err := json.Marshal(s.result)
	if err == nil {
		_, _ = unix.Write(3, append(b, '\n'))
	}
	os.Exit(0)
}
