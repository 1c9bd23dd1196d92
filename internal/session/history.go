package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// The history of a user is one file, with a line for each session that is over. Each line is written by a process of its own,
// once all of the session is ended. A home directory that does not answer, or a limit of file sizes, is that process's trouble.

// Past is a session that is over, or one start of the server behind a front.
type Past struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Behind is the id of the session whose front made this start; "" for any other.
	Behind  string  `json:"behind,omitempty"`
	Gateway proc.ID `json:"gateway"`
	// GatewayComm is the gateway's command name, "" if it was not known.
	GatewayComm string    `json:"gateway_comm,omitempty"`
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`
	// Args is the server's command line without what looks like a secret.
	Args []string `json:"args"`
	Outcome
	// Of a front: how often its server slept and was restarted, and the starts of its server, eldest first. The starts have
	// lines of their own.
	Sleeps   int     `json:"sleeps,omitempty"`
	Restarts int     `json:"restarts,omitempty"`
	Starts   []*Past `json:"starts,omitempty"`
	// Reaped says that nobody was left to end it but reap: Exit is -1 then.
	Reaped bool `json:"reaped,omitempty"`
	// Stderr are the last lines that the last server wrote to standard error, with --keep-stderr.
	Stderr []string `json:"stderr,omitempty"`
	// Open says that the front has written nothing: it lives, or was killed. Then the rest is of the last start.
	Open bool `json:"open,omitempty"`
}

// Outcome is how a session has ended.
type Outcome struct {
	Cause string `json:"cause"`
	// Signal is the name of the signal of CauseSignal.
	Signal string `json:"signal,omitempty"`
	// Exit is what run has exited with, -1 if that is not known.
	Exit int `json:"exit"`
	// Ended counts the processes that were ended, Killed those of them that took SIGKILL, and Names are the first commands
	// beside the server.
	Ended  int      `json:"ended"`
	Killed int      `json:"killed"`
	Names  []string `json:"names,omitempty"`
	// Containers counts those that were removed, and Kept the processes that were left alive on purpose.
	Containers int `json:"containers,omitempty"`
	Kept       int `json:"kept,omitempty"`
	// OOMKills counts the processes that the kernel killed because memory ran out.
	OOMKills uint64 `json:"oom_kills,omitempty"`
	// Left says what could not be ended.
	Left []string `json:"left,omitempty"`
	// PeakBytes is the most memory that one process of it had; 0 if that is not known.
	PeakBytes uint64 `json:"peak_bytes,omitempty"`
}

const (
	historyFile = "history.jsonl"
	nextHistory = "history.jsonl.tmp" // the next one, before it replaces the last
	historyLock = "history"           // begins the name of the lock
)

// Bounds of the history. Beyond maxHistory bytes it is shortened to the last MaxPast sessions, maxStarts lines of each and
// keptHistory bytes.
const (
	MaxPast     = 500
	maxStarts   = 10
	maxHistory  = 2 << 20
	keptHistory = 1 << 20
	// maxPast bounds a line, in bytes: one string of an environment has at most 128 KiB (execve(2)).
	maxPast = 32 << 10
)

const (
	// tellTime is how long the process that writes a line may take.
	tellTime = 3 * time.Second
	// lockRounds is how often it tries to take the lock, each for 50 ms.
	lockRounds = 50
	// envPast has the line. The others tell where the history is.
	envPast  = "MCP_TETHER_PAST"
	envHome  = "HOME"
	envState = "XDG_STATE_HOME"
)

// errNotTold says that the process that writes a line has failed, or was too slow.
var errNotTold = errors.New("the process that writes it has failed")

// Tell has a session written into its user's history by a process of its own, and waits for that, up to tellTime. Nothing
// of the session may be left to end. The error says why the history lacks it.
func (p *Past) Tell() error {
	line, err := json.Marshal(p)
	if len(line) > maxPast {
		p.Args, p.Left, p.Stderr = nil, nil, nil
		line, err = json.Marshal(p)
	}
	if err != nil {
		return err
	}
	null, err := proc.OpenNull()
	if err != nil {
		return err
	}
	defer unix.Close(null)
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.TellArgs(os.Args[0]), NewSession: true, Limit: tellTime,
		Env:   proc.WithOneProcessor([]string{envPast + "=" + string(line), envHome + "=" + os.Getenv(envHome), envState + "=" + os.Getenv(envState)}),
		Stdin: null, Stdout: null, Stderr: null, CgroupFD: -1, CgroupProcs: -1, Inherited: proc.ReadAtExec(),
	})
	if err == nil && !proc.EndWithin(pid, tellTime) {
		err = errNotTold
	}
	return err
}

// errNoPast says that a user has typed the command line of Told.
var errNoPast = errors.New("this is for mcp-tether itself")

// Told writes what Tell has passed to this process into the history.
func Told() error {
	line := os.Getenv(envPast)
	if line == "" {
		return errNoPast
	}
	dir, err := OpenState(os.Getuid(), os.Getenv(envState), os.Getenv(envHome))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.appendPast(line + "\n")
}

// appendPast appends a line by one write. The lock keeps it from being written to a file that is just replaced by a shorter one.
// Without the lock, which some file systems do not have, no line is written to a history that would have to be shortened.
func (d *Directory) appendPast(line string) error {
	lock, err := d.Take(historyLock)
	for n := 0; n < lockRounds && errors.Is(err, ErrHeld); n++ {
		lock, err = d.Take(historyLock)
	}
	if err == nil {
		defer lock.Release()
	}
	var st unix.Stat_t
	if d.at.Look(historyFile, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EINVAL
	}
	if st.Size > maxHistory && err == nil {
		err = d.shortenHistory()
	}
	if st.Size > maxHistory && err != nil {
		return err
	}
	fd, err := d.at.Open(historyFile, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	last := []byte{'\n'}
	if _, err := unix.Pread(fd, last, max(st.Size-1, 0)); err != nil {
		return err
	}
	if last[0] != '\n' {
		line = "\n" + line // The writer before was killed, or had no room.
	}
	n, err := unix.Write(fd, []byte(line))
	if err == nil && n < len(line) {
		if err = unix.ENOSPC; lock != nil {
			_ = unix.Ftruncate(fd, st.Size)
		}
	}
	return err
}

// shortenHistory replaces the history by its last part. What cannot be read goes.
func (d *Directory) shortenHistory() error {
	b, err := d.at.ReadEnd(historyFile, maxHistory)
	if err != nil {
		return err
	}
	var kept [][]byte
	lines, size, of := bytes.SplitAfter(b, []byte{'\n'}), 0, map[string]int{}
	for i := len(lines) - 1; i >= 0 && size+len(lines[i]) <= keptHistory; i-- {
		var p struct{ ID, Behind string }
		if json.Unmarshal(lines[i], &p) != nil {
			continue
		}
		if p.Behind != "" {
			p.ID = p.Behind
		}
		if n := of[p.ID]; n == maxStarts || n == 0 && len(of) == MaxPast {
			continue
		}
		of[p.ID]++
		size += len(lines[i])
		kept = append(kept, lines[i])
	}
	next := make([]byte, 0, size)
	for i := len(kept) - 1; i >= 0; i-- {
		next = append(next, kept[i]...)
	}
	if err = d.at.Unlink(nextHistory); err == nil {
		err = d.writeNew(nextHistory, next)
	}
	if err == nil {
		err = d.at.Rename(nextHistory, historyFile)
	}
	if err != nil {
		_ = d.at.Unlink(nextHistory)
	}
	return err
}

// History lists the last MaxPast sessions that are over, in the order of their ends. A session with a front is one, with the
// starts behind it. unread counts the lines that could not be read. No file is no history.
func (d *Directory) History() (all []*Past, unread int, err error) {
	b, err := d.at.ReadEnd(historyFile, 2*maxHistory)
	if errors.Is(err, unix.ENOENT) {
		return nil, 0, nil
	}
	at := map[string]*Past{}
	for line := range bytes.Lines(b) {
		p := new(Past)
		switch {
		case len(line) == 1:
			continue
		case json.Unmarshal(line, p) != nil || !ValidID(p.ID) || p.Behind != "" && !ValidID(p.Behind):
			unread++
			continue
		}
		p.Starts, p.Open = nil, false
		switch {
		case p.Behind != "":
			p = p.ofFront(at[p.Behind])
		case at[p.ID] != nil:
			p.Starts = at[p.ID].Starts
		}
		if i := slices.Index(all, at[p.ID]); i >= 0 {
			all = slices.Delete(all, i, i+1) // It has its place by its last line.
		}
		at[p.ID] = p
		all = append(all, p)
	}
	all = all[max(len(all)-MaxPast, 0):]
	for _, p := range all {
		p.sum()
	}
	return all, unread, err
}

// ofFront adds a start to the session of its front, of which nothing may be known yet.
func (p *Past) ofFront(front *Past) *Past {
	if front == nil || front.Open {
		whole := *p
		if whole.ID, whole.Behind, whole.Open = p.Behind, "", true; front != nil {
			whole.Starts = front.Starts
		}
		front = &whole
	}
	front.Starts = append(front.Starts, p)
	return front
}

// sum makes the outcome of a front that of all its starts.
func (p *Past) sum() {
	if len(p.Starts) > 0 {
		p.Outcome = Outcome{Cause: p.Cause, Signal: p.Signal, Exit: p.Exit}
	}
	for _, s := range p.Starts {
		p.Ended += s.Ended
		p.Killed += s.Killed
		p.Containers += s.Containers
		p.Kept += s.Kept
		p.OOMKills += s.OOMKills
		p.Left = append(p.Left, s.Left...)
		for _, name := range s.Names {
			if !slices.Contains(p.Names, name) {
				p.Names = append(p.Names, name)
			}
		}
		p.PeakBytes = max(p.PeakBytes, s.PeakBytes)
	}
}

// Is reports whether an id, or the beginning of one, means the session or one of its starts.
func (p *Past) Is(id string) bool {
	return strings.HasPrefix(p.ID, id) || slices.ContainsFunc(p.Starts, func(s *Past) bool { return s.Is(id) })
}
