package stage

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
)

// Closing is the event that ends a session's log.
type Closing struct {
	Message   string
	Session   string
	Cause     string
	Signal    string
	Exit      *int
	Survivors []Survivor
	Leaked    *bool
	Kept      []int
	// Ended counts what was ended, Killed what took SIGKILL of it; Names are those of the first ones beside the server.
	Ended, Killed int
	Names         []string
	UptimeMS      *float64 `json:"uptime_ms"`
	TeardownMS    *float64 `json:"teardown_ms"`
	OOMKills      int      `json:"oom_kills"`
	Why           string
}

// Survivor is a process that is named in it.
type Survivor struct {
	PID  int
	Comm string
	UID  int
	Why  string
}

// Ended reads the one closing event of the session.
func (s *Session) Ended() Closing {
	s.T.Helper()
	events, behind := s.Events("session ended"), s.Events(behindEnded)
	if len(behind) > 0 || len(events) == 1 && bytes.Contains(events[0], []byte(`"wakes":`)) {
		return s.endedInFront(events, behind)
	}
	if len(events) != 1 {
		s.T.Fatalf("%d closing events, want 1", len(events))
	}
	return s.parseClosing(events[0])
}

// behindEnded begins the closing event of a session behind a front.
const behindEnded = "server and all that it started ended"

// endedInFront is the closing event of a front, with what the last session behind it has left. A front that was killed has
// none.
func (s *Session) endedInFront(events, behind [][]byte) Closing {
	s.T.Helper()
	// A session that is ended before it has begun says nothing.
	var none float64
	last := Closing{Leaked: new(bool), TeardownMS: &none, UptimeMS: &none}
	for _, b := range behind {
		if c := s.parseClosing(b); !*last.Leaked {
			last = c
		}
	}
	if len(events) == 0 {
		return last
	}
	var front Closing
	if err := json.Unmarshal(events[0], &front); err != nil || len(events) > 1 {
		s.T.Fatalf("closing events of a front: %q, %v", events, err)
	}
	last.Cause, last.Signal, last.Exit, last.Session = front.Cause, front.Signal, front.Exit, front.Session
	return last
}

func (s *Session) parseClosing(event []byte) Closing {
	s.T.Helper()
	var c Closing
	if err := json.Unmarshal(event, &c); err != nil {
		s.T.Fatalf("closing event: %v", err)
	}
	if c.Exit == nil || c.Leaked == nil || c.UptimeMS == nil || c.TeardownMS == nil || c.Survivors == nil || c.Kept == nil {
		s.T.Fatalf("closing event lacks a field: %s", event)
	}
	return c
}

// EndedWhole reads the closing event and expects that nothing was left.
func (s *Session) EndedWhole(causes ...string) Closing {
	s.T.Helper()
	c := s.Ended()
	if !slices.Contains(causes, c.Cause) {
		s.T.Errorf("cause = %q, want one of %q", c.Cause, causes)
	}
	if len(c.Survivors) > 0 || *c.Leaked {
		s.T.Errorf("survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
	}
	return c
}

// Events are those of the session's log with this message.
func (s *Session) Events(message string) [][]byte {
	s.T.Helper()
	log, err := os.ReadFile(s.Log)
	if err != nil {
		s.T.Fatalf("%v", err)
	}
	var found [][]byte
	for line := range bytes.Lines(log) {
		var e struct{ Message string }
		if err := json.Unmarshal(line, &e); err != nil {
			s.T.Fatalf("log line is not JSON: %q", line)
		}
		if e.Message == message {
			found = append(found, line)
		}
	}
	return found
}

// EndedIn are the ids of the sessions that a log, in JSON, says have ended.
func EndedIn(log string) []string {
	b, _ := os.ReadFile(log)
	var ids []string
	for line := range bytes.Lines(b) {
		var c Closing
		if json.Unmarshal(line, &c) == nil && (c.Message == "session ended" || c.Message == behindEnded) && c.Session != "" {
			ids = append(ids, c.Session)
		}
	}
	return ids
}
