package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Version is the version of the record format. A reader leaves records of another version alone.
const Version = 2

// Record is what the disk holds about a session. On disk its groups are not seen: each field is one of the record.
type Record struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	UID     int       `json:"uid"`
	Host    proc.Host `json:"host"`
	State   string    `json:"state"`
	// Cause is why the session is ending; "" while it goes on, whatever its server does.
	Cause string `json:"cause,omitempty"`
	Shown
	Processes
	Containers
	Keeping
	Relations
	Fronted
}

// Shown is what people know the session by.
type Shown struct {
	Name    string    `json:"name,omitempty"`
	Started time.Time `json:"started"`
	// Args is the server's command line without what looks like a secret.
	Args []string `json:"args"`
	// NoHistory says that the session is left out of the history.
	NoHistory bool `json:"no_history,omitempty"`
}

// Processes are those that the session depends on, and where the server's are found.
type Processes struct {
	// Gateway is the first ancestor that is no launcher; zero when it is not known. GatewayComm was its command name then.
	Gateway     proc.ID `json:"gateway"`
	GatewayComm string  `json:"gateway_comm,omitempty"`
	Parent      proc.ID `json:"parent"`
	Anchor      proc.ID `json:"anchor"`
	Supervisor  proc.ID `json:"supervisor"`
	Server      proc.ID `json:"server"`
	// Group is the process group that the server was started in, 0 if it is not known.
	Group  int    `json:"group,omitempty"`
	Cgroup string `json:"cgroup,omitempty"`
}

// Containers is how the session reaches a container engine.
type Containers struct {
	// Engine is the URL of the engine behind our proxy, and Socket where the proxy listens; "" without one. EngineUsed says that
	// a client has connected, so that containers may have been made.
	Engine     string `json:"engine,omitempty"`
	EngineUsed bool   `json:"engine_used,omitempty"`
	Socket     string `json:"socket,omitempty"`
	// ContainerAt is when the session was last seen to make a container, or a network or pod of one.
	ContainerAt time.Time `json:"container_at,omitzero"`
}

// Keeping is what the session leaves alone.
type Keeping struct {
	// Keep are the patterns of --keep. KeepNothing says that nothing is kept, whatever asks for it.
	Keep        []string `json:"keep,omitempty"`
	KeepNothing bool     `json:"keep_nothing,omitempty"`
	// Kept are the processes that were kept when the session ended.
	Kept []Fate `json:"kept,omitempty"`
}

// Relations tie the session to others.
type Relations struct {
	// Key is that of --exclusive.
	Key string `json:"key,omitempty"`
	// Share is the place of the shared server whose host the session belongs to; "" for any other.
	Share string `json:"share,omitempty"`
	// Behind is the id of the session whose front started this one; "" for a session that a gateway started.
	Behind string `json:"behind,omitempty"`
}

// Fronted is what a front writes of its server.
type Fronted struct {
	// Front says that a front has written this: its server may be replaced.
	Front bool `json:"front,omitempty"`
	// Sleeps and Wakes count how often the server hibernated and woke.
	Sleeps int `json:"sleeps,omitempty"`
	Wakes  int `json:"wakes,omitempty"`
	// Sleepless is why the server hibernates no more: one that was woken could not take its place. "" if it may.
	Sleepless string `json:"sleepless,omitempty"`
	// Restarts counts how often the server was started again after it had ended by itself (--on-crash).
	Restarts int `json:"restarts,omitempty"`
	// Unstarted is why no server could be started in the place of the last one; "" if one could.
	Unstarted string `json:"unstarted,omitempty"`
	// Awake says why an idle server was not put to sleep when it was last looked at; "" if it was, or has been used since.
	Awake string `json:"awake,omitempty"`
}

// Names of the marks in the environment of a server and everything it starts.
const (
	EnvID      = "MCP_TETHER_SESSION"
	EnvGateway = "MCP_TETHER_GATEWAY"
	// EnvKept is "1" with --keep, for when the record with the patterns is gone. Then what has the marks may be meant to stay.
	EnvKept = "MCP_TETHER_KEPT"
	// EnvShared tells a session that its server is a shared one, and the place of its host. No server gets to see it.
	EnvShared = "MCP_TETHER_SHARED"
	// EnvBehind tells a session that a front has started it, and the front's id. No server gets to see it.
	EnvBehind = "MCP_TETHER_BEHIND"
	// Unended behind that id says that the last session behind the front was killed, and may still be ending.
	Unended = "+"
)

// The states of a session.
const (
	StateRunning    = "running"
	StateEnding     = "ending"
	StateFalling    = "falling-asleep" // its server is being ended, and the session goes on
	StateAsleep     = "asleep"         // without a server, until the next message (--hibernate)
	StateLazy       = "not-started"    // without a server, which nothing has needed yet (--lazy)
	StateRestarting = "restarting"     // its server is being replaced by a new one
	StateSurvived   = "survived"       // over, but a process would not die
	StateKept       = "kept"           // over, but a process belongs to people
)

// For how long to read a record again whose lease is held, and which so may be being written, and how long to wait between.
const (
	tornTime  = 100 * time.Millisecond
	tornPause = 2 * time.Millisecond
)

// isTorn reports whether what was read is no whole record.
func isTorn(err error) bool {
	var torn *json.SyntaxError
	return errors.As(err, &torn)
}

// Read reads a record. Symbolic links, FIFOs, oversized files, unknown versions and records that do not name their own
// file are errors: such a record proves nothing. One in which nothing is written yet is none (os.ErrNotExist).
func (d *Directory) Read(id string) (Record, error) {
	r, err := d.read(id)
	for until := time.Now().Add(tornTime); isTorn(err) && time.Now().Before(until); {
		if held, _ := d.Held(id); !held {
			// Nobody writes it any more. There may be thousands of such.
			return d.read(id)
		}
		time.Sleep(tornPause)
		r, err = d.read(id)
	}
	return r, err
}

func (d *Directory) read(id string) (Record, error) {
	name := file(id, recordSuffix)
	b, err := d.at.ReadRegular(name, proc.MaxRecord)
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("read %s/%s: nothing is written yet: %w", d.Name, name, unix.ENOENT)
	}
	if err != nil {
		return Record{}, err
	}
	return parse(b, d.Name+"/"+name, id)
}

func parse(b []byte, name, id string) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("parse record %s: %w", name, err)
	}
	if r.Version != Version {
		return Record{}, fmt.Errorf("record %s has version %d, this program reads %d", name, r.Version, Version)
	}
	if r.ID != id {
		return Record{}, fmt.Errorf("record %s names session %.40q", name, r.ID)
	}
	return r, nil
}
