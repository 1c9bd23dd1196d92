package keeper

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/engine/proxy"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// A journal that cannot be read is neither emptied nor replaced before that: its notes are known from nowhere else.
func TestUnreadJournalStays(t *testing.T) {
	id := session.NewID()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	j := dir.Journal(id)
	defer j.Close()
	if err := j.Note(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: "a", Request: "r"}); err != nil {
		t.Fatal(err)
	}
	k := Recover(Options{URL: "unix:///nowhere", Session: id}, &session.Record{}, dir)
	k.journal = dir.Journal(id)
	for _, op := range []engine.Op{engine.OpCreated, engine.OpRemoved} {
		k.note(engine.Note{Op: op, Kind: engine.Container, ID: "b", Request: "s"})
	}
	if err := k.recallOnce(); err != nil || !k.claim.Complete {
		t.Fatalf("all is known %v: %v", k.claim.Complete, err)
	}
	if all := k.ledger.Objects(); len(all) != 1 || all[0].ID != "a" {
		t.Errorf("known is %+v", all)
	}
	k.closeJournal(false)
}

// A container that cannot be removed is asked to stop, and waited for, in the first round only.
func TestUnremovableContainerHasOneGracePeriod(t *testing.T) {
	e := &testkit.Engine{
		Have: map[string]*testkit.Object{"a": {Running: true, Ignores: true, Labels: map[string]string{engine.LabelRequest: "r"}}},
		Takes: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				http.Error(w, `{"message":"device or resource busy"}`, http.StatusInternalServerError)
			}
			return r.Method == http.MethodDelete
		},
	}
	at, err := engine.EndpointAt(e.Listen(t), "", false)
	if err != nil {
		t.Fatal(err)
	}
	k := newKeeper(Options{Session: "s", Grace: time.Millisecond, Limit: time.Second}, at)
	k.claim.Complete = true
	k.ledger.Add(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: "a", Request: "r"})
	// On a machine that is too slow for a round, the next one asks again, or a round ends before its kill.
	r := k.remove()
	asked, killed := len(e.Asked("signal=SIGTERM")), len(e.Asked("signal=SIGKILL"))
	if r.Err == nil || asked == 0 || asked >= killed {
		t.Errorf("asked %d times, killed %d times: %v", asked, killed, r.Err)
	}
}

// A client cannot fill the log: of many warnings some are there, and how many are not.
func TestWarningsAreBounded(t *testing.T) {
	var said bytes.Buffer
	k := newKeeper(Options{Log: zerolog.New(&said)}, engine.Endpoint{})
	for i := range 10 * maxWarnings {
		k.warn(fmt.Errorf("odd %d", i/2))
	}
	k.tellSuppressed()
	if n := bytes.Count(said.Bytes(), []byte("\n")); n != maxWarnings+1 || !bytes.Contains(said.Bytes(), []byte("were left out")) {
		t.Errorf("%d lines:\n%s", n, said.Bytes())
	}
}

// Containers that their engine removes by itself (--rm) are not remembered for ever, and one that stays is.
func TestJournalStaysShort(t *testing.T) {
	e := &testkit.Engine{Have: map[string]*testkit.Object{"stays": {}}}
	at, err := engine.EndpointAt(e.Listen(t), "", false)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	k := newKeeper(Options{Session: session.NewID(), Limit: testkit.Patience}, at)
	k.claim.Complete, k.proxy = true, &proxy.Proxy{}
	k.dir, k.journal = dir, dir.Journal(k.claim.Session)
	for i := range forgetEvery {
		id := fmt.Sprint("gone", i)
		if i == 7 {
			id = "stays"
		}
		k.note(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: id, Request: id})
	}
	testkit.Until(t, "a short journal", func() bool {
		notes, err := dir.Notes(k.claim.Session)
		return err == nil && len(notes) == 1 && notes[0].ID == "stays"
	})
	k.closeJournal(true)
}

// When a helper has ended, its pid may be given to another process, which may lead a session with that number. What is in
// that session is not ours to end, also when its leader is gone. A later helper lets go of the number.
func TestReusedNumberOfAHelper(t *testing.T) {
	if err := proc.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	for name, c := range map[string]struct {
		script string
		older  uint64 // than the leader of the session
		gone   bool   // the leader
		ends   bool
	}{
		"not reused":         {script: "exec cat", ends: true},
		"reused":             {script: "exec cat", older: 1},
		"reused by one gone": {script: "exec 3<&0; cat <&3 &", older: 1, gone: true},
	} {
		cmd := exec.Command("/bin/sh", "-c", c.script)
		in, w := testkit.Pipe(t)
		r, out := testkit.Pipe(t)
		cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = in, out, &unix.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		out.Close()
		echoes := func() bool {
			b := []byte{'x'}
			_, _ = w.Write(b)
			_, err := r.Read(b)
			return err == nil
		}
		k := &Keeper{}
		leader, err := k.reader.Stat(cmd.Process.Pid)
		if err != nil || !echoes() {
			t.Fatalf("%s: %v", name, err)
		}
		if c.gone {
			_ = cmd.Wait()
		}
		k.helpers = []proc.ID{{PID: leader.PID, Start: leader.Start - c.older}}
		k.addHelper(os.Getpid())
		if known := len(k.helpers) == 2; known == (c.older > 0 && !c.gone) {
			t.Errorf("%s: a later helper has left %v of %v", name, k.helpers, leader)
		}
		k.helpers = []proc.ID{{PID: leader.PID, Start: leader.Start - c.older}}
		k.endHelpers()
		if echoes() == c.ends {
			t.Errorf("%s: ended %t, want %t", name, !c.ends, c.ends)
		}
		w.Close()
		testkit.Until(t, "the end of the session", func() bool {
			_, _ = proc.Reap(func(int, unix.WaitStatus) {})
			all, err := k.reader.Descendants(os.Getpid())
			return err == nil && !slices.ContainsFunc(all, func(p proc.Stat) bool { return p.Session == leader.PID })
		})
	}
}
