package front

import (
	"os"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// recorded is what is on disk of the session.
type recorded struct {
	lease  *session.Lease // nil where no record can be kept
	record session.Record
}

// openRecord takes the lease. Without a record the session runs all the same, but ps and stop do not see it. The host of a
// shared server tells of its sessions, so theirs have a record only while they are attached to none.
func (f *front) openRecord() {
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err == nil {
		if f.lease, err = dir.Take(f.record.ID); err != nil {
			dir.Close()
		}
	}
	if err != nil {
		f.log.Warn().Err(err).Msg("session is not recorded: ps and stop will not see it")
		return
	}
	r := &f.record
	r.Version, r.UID, r.Started = session.Version, os.Getuid(), f.clock.started.UTC()
	r.Name, r.Key, r.Args = f.o.Name, f.o.Key, session.Redact(f.o.Command)
	r.NoHistory, r.Front = !f.o.History, true
	r.Host, _ = f.reader.ReadHost()
	pid, _ := proc.Spawned()
	if st, err := f.reader.Stat(pid); err == nil {
		r.Supervisor = st.ID
	}
	f.writeRecord()
}

func (f *front) state() string {
	switch {
	case f.cause != session.NoCause:
		return session.StateEnding
	case f.restart.under:
		return session.StateRestarting
	case f.phase == asleep && f.o.Lazy && !f.relay.Spoke():
		return session.StateLazy
	case f.phase == asleep:
		return session.StateAsleep
	case f.phase == falling:
		return session.StateFalling
	}
	return session.StateRunning
}

// writeRecord writes the record. One that cannot be written is late by a change of state.
func (f *front) writeRecord() {
	if f.lease == nil {
		return
	}
	f.record.State, f.record.Cause = f.state(), string(f.cause)
	if err := f.lease.Write(f.record); err != nil {
		f.log.Warn().Err(err).Msg("session record not written")
	}
}

// closeRecord removes the record. What a backend has left is in the record of the backend.
func (f *front) closeRecord() {
	if f.lease == nil {
		return
	}
	if err := f.lease.Remove(); err != nil {
		f.log.Warn().Err(err).Msg("session record not removed")
	}
	f.lease.Dir().Close() // The front of a shared server has many a record.
	f.lease = nil
}
