package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// closing is the event that ends a session's log.
type closing struct {
	Message    string
	Session    string
	Cause      string
	Signal     string
	Exit       *int
	Survivors  []survivor
	Leaked     *bool
	Kept       []int
	UptimeMS   *float64 `json:"uptime_ms"`
	TeardownMS *float64 `json:"teardown_ms"`
}

type survivor struct {
	PID  int
	Comm string
	UID  int
	Why  string
}

// ended reads the one closing event of the session.
func (s *session) ended() closing {
	s.t.Helper()
	events := s.events("session ended")
	if len(events) != 1 {
		s.t.Fatalf("%d closing events, want 1", len(events))
	}
	var c closing
	dec := json.NewDecoder(bytes.NewReader(events[0]))
	if err := dec.Decode(&c); err != nil {
		s.t.Fatalf("closing event: %v", err)
	}
	if c.Exit == nil || c.Leaked == nil || c.UptimeMS == nil || c.TeardownMS == nil || c.Survivors == nil || c.Kept == nil {
		s.t.Fatalf("closing event lacks a field: %s", events[0])
	}
	return c
}

// endedWhole reads the closing event and expects that nothing was left.
func (s *session) endedWhole(causes ...string) closing {
	s.t.Helper()
	c := s.ended()
	if !slices.Contains(causes, c.Cause) {
		s.t.Errorf("cause = %q, want one of %q", c.Cause, causes)
	}
	if len(c.Survivors) > 0 || *c.Leaked {
		s.t.Errorf("survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
	}
	return c
}

// events of the session's log with this message.
func (s *session) events(message string) [][]byte {
	s.t.Helper()
	log, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	var found [][]byte
	for line := range bytes.Lines(log) {
		var e struct{ Message string }
		if err := json.Unmarshal(line, &e); err != nil {
			s.t.Fatalf("log line is not JSON: %q", line)
		}
		if e.Message == message {
			found = append(found, line)
		}
	}
	return found
}

// endedIn are the ids of the sessions that a log, in JSON, says have ended.
func endedIn(log string) []string {
	b, _ := os.ReadFile(log)
	var ids []string
	for line := range bytes.Lines(b) {
		var c closing
		if json.Unmarshal(line, &c) == nil && c.Message == "session ended" && c.Session != "" {
			ids = append(ids, c.Session)
		}
	}
	return ids
}

func wantExit(t *testing.T, got string, want ...string) {
	t.Helper()
	if !slices.Contains(want, got) {
		t.Errorf("the wrapper ended with %q, want %q", got, want)
	}
}
