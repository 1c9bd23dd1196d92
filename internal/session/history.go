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

	"mcp-tether/internal/proc"
)

// The history of a user is a file with a line for each session that is over, and the file before it.

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

// Past is what the record says for the history.
func (r *Record) Past(o Outcome) Past {
	return Past{
		ID: r.ID, Name: r.Name, Behind: r.Behind, Gateway: r.Gateway, GatewayComm: r.GatewayComm, Started: r.Started, Args: r.Args,
		Seconds: time.Since(r.Started).Round(time.Millisecond).Seconds(), Sleeps: r.Sleeps, Restarts: r.Restarts, Outcome: o,
	}
}

const (
	// HistoryFile is the name of the file.
	HistoryFile = "history.jsonl"
	oldHistory  = "history.jsonl.1" // the one before, which the reader reads as well
)

const (
	// MaxPast is how many sessions History lists.
	MaxPast = 500
	// maxPast bounds a line, in bytes.
	maxPast = 32 << 10
)

// errHung says that the home directory does not answer.
var errHung = errors.New("the home directory does not answer")

// Append writes a session into the history of this process's user. Nothing of the session may be left to end: it may take
// proc.HistoryTime, and then leave a thread that hangs, which ends with the process. The error says why the history lacks it.
func (p *Past) Append() error {
	line, err := json.Marshal(p)
	if len(line) > maxPast {
		p.Args, p.Left, p.Stderr, p.Processes = nil, nil, nil, nil
		line, err = json.Marshal(p)
	}
	if err != nil {
		return err
	}
	return inTime(func() error {
		dir, err := OpenState(os.Getuid(), os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME"))
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.appendPast(append(line, '\n'))
	})
}

// Draft is the line that Append would write, but for its end: seconds, cause, signal and exit code. Another process writes that, and
// appends the line to HistoryFile in the directory, whose descriptor is returned. It takes no longer than Append.
func (p *Past) Draft() (line []byte, directory int, err error) {
	line, err = json.Marshal(struct {
		*Past
		Seconds *float64 `json:"seconds,omitempty"`
		Cause   *string  `json:"cause,omitempty"`
		Exit    *int     `json:"exit,omitempty"`
	}{Past: p})
	if err != nil {
		return nil, -1, err
	}
	opened := make(chan *Directory, 1)
	err = inTime(func() error {
		dir, err := OpenState(os.Getuid(), os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME"))
		if err == nil {
			dir.rotateHistory()
			opened <- dir
		}
		return err
	})
	if err != nil {
		return nil, -1, err
	}
	return bytes.TrimSuffix(line, []byte("}")), (<-opened).at.FD(), nil
}

// inTime does something in a home directory, for proc.HistoryTime at the longest.
func inTime(do func() error) error {
	var err error
	if !proc.InTime(proc.HistoryTime, func() { err = do() }) {
		return errHung
	}
	return err
}

// appendPast appends a line by one write.
func (d *Directory) appendPast(line []byte) error {
	d.rotateHistory()
	fd, err := d.openHistory()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, line)
	if err == nil && n < len(line) {
		err = unix.ENOSPC
	}
	return err
}

// rotateHistory makes a history that is full the old one. The lock is on the file, so none is renamed that has just begun.
func (d *Directory) rotateHistory() {
	var named, locked unix.Stat_t
	if d.at.Look(HistoryFile, &named) != nil || named.Size < proc.MaxHistory {
		return
	}
	fd, err := d.openHistory()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && unix.Fstat(fd, &locked) == nil &&
		d.at.Look(HistoryFile, &named) == nil && named.Ino == locked.Ino && named.Size >= proc.MaxHistory {
		_ = d.at.Rename(HistoryFile, oldHistory)
	}
}

func (d *Directory) openHistory() (int, error) {
	return d.at.Open(HistoryFile, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NONBLOCK, 0o600)
}

// History lists the last MaxPast sessions that are over, in the order of their ends. A session with a front is one, with the
// starts behind it. unread counts the lines that could not be read. No file is no history.
func (d *Directory) History() (all []*Past, unread int, err error) {
	var b []byte
	for _, name := range []string{oldHistory, HistoryFile} {
		part, readErr := d.at.ReadEnd(name, 2*proc.MaxHistory)
		if readErr != nil && !errors.Is(readErr, unix.ENOENT) {
			err = readErr
		}
		b = append(append(b, part...), '\n')
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
		case p.Reaped && at[p.ID] != nil && !at[p.ID].Open:
			p = at[p.ID].reaped(p) // What it had kept was ended later.
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

// reaped adds what reap has ended of a session after its end.
func (p *Past) reaped(later *Past) *Past {
	whole := *p
	whole.Ended += later.Ended
	whole.Processes = append(slices.Clip(p.Processes), later.Processes...)
	return &whole
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
		p.Processes = append(p.Processes, s.Processes...)
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

// Says reports whether a text is in the session's name, its command, or what is told of its processes, whatever the case of its letters.
func (p *Past) Says(text string) bool {
	return contains(p.Name, text) || contains(strings.Join(p.Args, " "), text) || contains(strings.Join(p.Names, " "), text) ||
		contains(strings.Join(p.Left, " "), text) || slices.ContainsFunc(p.Processes, func(f Fate) bool { return f.Says(text) })
}
