package share

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
)

const (
	helloLine   = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	readyLine   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	welcomeLine = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}}}}`
)

// newHost is a host whose server the test plays.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{polled: polled{gateway: -1}, joined: joined{most: 10, clients: map[mux.Client]*client{}, mux: mux.New()}}
	h.longest = mcp.DefaultMax
	h.server.reset()
	h.server.pid = 1 << 30 // no process has that number
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	h.place, h.listener = dir.Place("k"), -1
	if h.lock, err = h.place.Lock(); err != nil {
		t.Fatal(err)
	}
	if h.signals, err = proc.Catch(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range h.clients {
			h.drop(c)
		}
	})
	return h
}

// fdPair makes two descriptors, which are closed in the end.
func fdPair(t *testing.T) [2]int {
	t.Helper()
	r, w := testkit.Pipe(t)
	t.Cleanup(func() { r.Close(); w.Close() })
	return [2]int{int(r.Fd()), int(w.Fd())}
}

// connect makes a client whose hello waits.
func connect(t *testing.T, h *host) *client {
	t.Helper()
	return connectInput(t, h, fdPair(t)[0])
}

// connectInput is connect with a standard input of the test's own.
func connectInput(t *testing.T, h *host, in int) *client {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(ends[0]) })
	out := fdPair(t)
	if err := send(ends[0], hello{}, in, out[1], out[1]); err != nil {
		t.Fatal(err)
	}
	h.lastID++
	c := newClient(h.lastID, ends[1])
	h.clients[c.id] = c
	return c
}

// hears has the host act on a line of a client. What follows from it is left to h.pass.
func hears(h *host, c *client, line string) {
	h.deliver(h.mux.FromClient(c.id, []byte(line+"\n")))
}

// Once its server has ended, a host passes on what is queued, tells each client, and is over. Its place is free at once. A client
// that does not read is told as well, when its time is up.
func TestPart(t *testing.T) {
	for _, reads := range []bool{true, false} {
		h := newHost(t)
		h.o.EOFGrace = time.Hour
		idle, busy := connect(t, h), connect(t, h)
		for _, c := range []*client{idle, busy} {
			h.takeHello(c)
		}
		silent := connect(t, h)
		pipe := fdPair(t)
		busy.Out.Close()
		busy.Out = relay.Own(must(t)(unix.Dup(pipe[1])))
		line := make([]byte, 128<<10)
		h.deliver([]mux.Out{{To: busy.id, Line: line}})
		told := map[*client]*Finder{}
		for _, c := range []*client{idle, busy, silent} {
			told[c] = &Finder{slot: 1}
			told[c].conn, c.conn = c.conn, told[c].conn
			ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			_ = unix.Close(told[c].conn)
			told[c].conn, c.conn = ends[0], ends[1]
			t.Cleanup(told[c].HangUp)
		}
		h.server.spoke = true
		h.onServerEnd(7)
		h.pass(time.Now())
		if n, ok := told[idle].Receive(); !ok || n.Next != Anew || n.Code != 7 || !strings.Contains(n.Why, "exit code 7") {
			t.Errorf("the idle one hears %+v, %t", n, ok)
		}
		if n, ok := told[silent].Receive(); !ok || n.Next != Lost {
			t.Errorf("one that has not been heard hears %+v, %t", n, ok)
		}
		if n, ok := told[busy].Receive(); ok || h.done {
			t.Fatalf("the busy one hears %+v before it has all; done %t", n, h.done)
		}
		if lock, err := h.place.Lock(); err != nil {
			t.Errorf("the place is not free: %v", err)
		} else {
			_ = lock.Remove()
		}
		got := 0
		for reads && got < len(line) {
			got += must(t)(unix.Read(pipe[0], make([]byte, 64<<10)))
			for h.turn(t) > 0 {
			}
		}
		if !reads {
			h.onTime(h.endBy)
		}
		if n, ok := told[busy].Receive(); !ok || n.Next != Anew || !h.done {
			t.Errorf("reads %t: the busy one hears %+v, %t; done %t", reads, n, ok, h.done)
		}
	}
}

// inputs are the kinds of standard input whose end can be waited for: the client's end and the host's, and what closes
// the input.
var inputs = map[string]func(t *testing.T) (theirs, ours int, end func() error){
	"pipe": func(t *testing.T) (int, int, func() error) {
		r, w := testkit.Pipe(t)
		t.Cleanup(func() { r.Close(); w.Close() })
		return int(w.Fd()), int(r.Fd()), w.Close
	},
	"socket": func(t *testing.T) (int, int, func() error) {
		ends := socketPair(t)
		return int(ends[0].Fd()), int(ends[1].Fd()), ends[0].Close
	},
	"socket that is shut down": func(t *testing.T) (int, int, func() error) {
		ends := socketPair(t)
		theirs := int(ends[0].Fd())
		return theirs, int(ends[1].Fd()), func() error { return unix.Shutdown(theirs, unix.SHUT_WR) }
	},
}

func socketPair(t *testing.T) (ends [2]*os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		end := os.NewFile(uintptr(fd), "")
		t.Cleanup(func() { end.Close() })
		ends[i] = end
	}
	return ends
}

// turn acts on what has happened, without waiting. It returns how many descriptors were ready.
func (h *host) turn(t *testing.T) (ready int) {
	t.Helper()
	h.listAt, h.freeAt, h.lingerAt = time.Time{}, time.Time{}, time.Time{}
	h.wait(0)
	for _, p := range h.fds {
		if p.Revents != 0 {
			ready++
		}
	}
	h.act()
	return ready
}

const lastLine = `{"jsonrpc":"2.0","method":"notifications/last"}` + "\n"

// A client that closes its input while it is held back is waited for by its front. Once there is room, all that it has written is
// passed on, and it goes. Until then it keeps nobody busy.
func TestInputClosedWhileHeldBack(t *testing.T) {
	for input, open := range inputs {
		for _, byServer := range []bool{true, false} {
			h := newHost(t)
			theirs, ours, end := open(t)
			c := connectInput(t, h, ours)
			h.takeHello(c)
			server, _ := pipeServer(t, h)
			if byServer {
				c.ahead += 2 * pauseReading
			} else {
				c.Put(make([]byte, 2*pauseReading)) // Nobody reads it.
			}
			must(t)(unix.Write(theirs, []byte(lastLine)))
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if n := h.turn(t); n != 0 || h.clients[c.id] != c {
				t.Fatalf("%s: while it is held back %d descriptors are ready; it is there: %t", input, n, h.clients[c.id] == c)
			}
			if c.ahead = 0; !byServer {
				c.TakeOutbox()
			}
			h.pass(time.Now())
			for h.turn(t) > 0 {
			}
			if h.clients[c.id] == c {
				t.Errorf("%s: with room it stays for ever", input)
			}
			got := make([]byte, len(lastLine)+1)
			if n := must(t)(unix.Read(server, got)); string(got[:n]) != lastLine {
				t.Errorf("%s: the server got %q", input, got[:n])
			}
		}
	}
}

// A server whose first message is too long is not said to have been silent.
func TestFirstMessageTooLong(t *testing.T) {
	h := newHost(t)
	h.longest = 10
	_, stdout := pipeServer(t, h)
	must(t)(unix.Write(stdout, make([]byte, 11)))
	h.readServer()
	h.onServerEnd(143)
	if h.lastVerdict == nil || !strings.Contains(h.lastVerdict.Why, "a message of more than") {
		t.Errorf("%+v", h.lastVerdict)
	}
}

// A server that has been reaped is not signalled, whatever it has written: its pid may be another process's.
func TestEndedServerIsNotSignalled(t *testing.T) {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	if err := other.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// A signal stays pending in a stopped process.
	if err := unix.Waitid(unix.P_PID, other.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.longest = 10
	var out [2]int
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	must(t)(unix.Write(out[1], make([]byte, 11)))
	_ = unix.Close(out[1])
	h.server.pid, h.server.Peer = other.Process.Pid, relay.Peer{In: relay.Own(out[0]), Out: relay.WriteEnd(-1)}
	h.onServerEnd(0)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", other.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "ShdPnd:\t0000000000000000") {
		t.Errorf("signalled:\n%s", status)
	}
}

// A server whose standard input nothing reads any more, while its end takes time, does not keep the host busy. A process
// that it has started still holds its output.
func TestServerThatReadsNoMore(t *testing.T) {
	for _, size := range []int{0, 1} {
		h := newHost(t)
		stdin, _ := pipeServer(t, h)
		null := must(t)(unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0))
		if err := unix.Dup3(null, stdin, unix.O_CLOEXEC); err != nil { // closes the reading end
			t.Fatal(err)
		}
		_ = unix.Close(null)
		if size > 0 {
			h.put(mux.Out{Line: make([]byte, size)})
			h.pass(time.Now())
		}
		if busy := h.turn(t); busy != 0 || h.server.size != 0 {
			t.Errorf("with %d bytes that wait: %d descriptors are ready, %d bytes wait", size, busy, h.server.size)
		}
	}
}

// pipeServer gives the host's server pipes whose other ends the test has.
func pipeServer(t *testing.T, h *host) (stdin, stdout int) {
	t.Helper()
	var child proc.Child
	done, err := h.server.Connect(&child)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	t.Cleanup(h.server.reset)
	for _, fd := range []int{child.Stdin, child.Stdout} {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return child.Stdin, child.Stdout
}

// fill has the server write a line until the host reads no more of it, or has read enough.
func fill(t *testing.T, h *host, stdout int, line string, enough int) {
	t.Helper()
	lines := []byte(strings.Repeat(line+"\n", max(1, (32<<10)/len(line))))
	rest := lines
	for written := 0; written < enough; {
		n, err := unix.Write(stdout, rest)
		if err != nil { // Its pipe is full, and the host has nothing to do.
			return
		}
		written += n
		if rest = rest[n:]; len(rest) == 0 {
			rest = lines
		}
		for h.turn(t) > 0 {
		}
	}
}

// A server that asks and does not read is held back. It is read from again once it reads, unless too much waits for
// clients.
func TestServerThatAsksAndDoesNotRead(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	longID := strings.Repeat("x", 32<<10)
	for what, line := range map[string]string{
		"pings":                ping,
		"pings with long ids":  `{"jsonrpc":"2.0","id":"` + longID + `","method":"ping"}`,
		"what nobody can tell": `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`,
		"that with long ids":   `{"jsonrpc":"2.0","id":"` + longID + `","method":"sampling/createMessage"}`,
	} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t)
			stdin, stdout := pipeServer(t, h)
			fill(t, h, stdout, line, 16*pauseReading)
			if h.server.size < pauseReading/2 || h.server.size > 2*pauseReading {
				t.Fatalf("%d bytes wait for the server", h.server.size)
			}
			unread := h.server.Queued()
			still := connect(t, h)
			h.takeHello(still)
			still.Put(make([]byte, outputBudget))
			h.throttledUntil = time.Now().Add(time.Hour)
			got := make([]byte, 64<<10)
			drain := func() {
				for h.server.size > 0 {
					must(t)(unix.Read(stdin, got))
					h.turn(t)
				}
			}
			drain()
			if now := h.server.Queued(); now != unread {
				t.Errorf("it is read from while too much waits for clients: %d of %d bytes are left", now, unread)
			}
			still.TakeOutbox()
			h.pass(time.Now())
			for h.server.Queued() > 0 {
				if h.turn(t) == 0 {
					t.Fatal("it is never read from again")
				}
				drain()
			}
		})
	}
}

// What clients send does not have the server held back: it may have to write before it reads on.
func TestServerIsReadThatHasMuchToRead(t *testing.T) {
	h := newHost(t)
	_, stdout := pipeServer(t, h)
	h.put(mux.Out{Line: make([]byte, 4*pauseReading)})
	h.pass(time.Now())
	must(t)(unix.Write(stdout, []byte(lastLine)))
	if h.turn(t) == 0 || h.server.Queued() > 0 {
		t.Error("it is not read from")
	}
}

// What the server has written before its end is read, and no more: here, as beside a process that outlives it and writes
// on, neither of its streams ever runs dry.
func TestServerEndBesideAWriter(t *testing.T) {
	h := newHost(t)
	h.server.Peer = relay.Peer{In: relay.Own(must(t)(unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0))), Out: relay.WriteEnd(-1)}
	// Each read of it writes as much again.
	errs := fdPair(t)
	must(t)(unix.Write(errs[1], []byte("a last word")))
	h.server.stderr = relay.Peer{In: relay.Own(must(t)(unix.Dup(errs[0]))), Out: relay.WriteEnd(-1)}
	first := newClient(1, -1)
	first.attached, first.stderr, first.ahead = true, relay.WriteEnd(errs[1]), 1
	h.clients[1] = first
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.onServerEnd(0)
	}()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Fatal("it is read without an end")
	}
	if strings.Contains(h.lastVerdict.Why, "a message of more than") {
		t.Errorf("standard output is read without an end: %s", h.lastVerdict.Why)
	}
	if n := must(t)(unix.IoctlGetInt(errs[0], unix.TIOCINQ)); n != len("a last word") {
		t.Errorf("%d bytes of standard error were passed on", n)
	}
}

// Its last words are passed on, also more of them than one read takes.
func TestLastWordsOfTheServer(t *testing.T) {
	h := newHost(t)
	c := connect(t, h)
	h.takeHello(c)
	_, stdout := pipeServer(t, h)
	if _, err := unix.FcntlInt(uintptr(stdout), unix.F_SETPIPE_SZ, 256<<10); err != nil {
		t.Fatal(err)
	}
	h.mux.FromClient(c.id, []byte(helloLine))
	h.mux.FromServer([]byte(welcomeLine))
	const count = 192 << 10 / len(lastLine)
	must(t)(unix.Write(stdout, []byte(strings.Repeat(lastLine, count))))
	h.onServerEnd(0)
	if n := bytes.Count(c.TakeOutbox(), []byte("\n")); n != count {
		t.Errorf("%d of %d lines were passed on", n, count)
	}
}
