package session

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"mcp-tether/internal/proc"
)

// Two hundred sessions that end at once lose no line, though the history gets full meanwhile.
func TestHistoryOfManyAtOnce(t *testing.T) {
	const many = 200
	name := t.TempDir()
	dir := open(t, name)
	old := fmt.Sprintf(`{"id":"%016x","args":["%s"]}`+"\n", 1, strings.Repeat("x", 1000))
	if err := os.WriteFile(name+"/"+HistoryFile, []byte(strings.Repeat(old, proc.MaxHistory/len(old)-50)), 0o600); err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	for i := range many {
		ended.Go(func() {
			line := fmt.Sprintf(`{"id":"%016x","left":["%s"]}`+"\n", 1000+i, strings.Repeat("y", 1000))
			if err := dir.appendPast([]byte(line)); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	all, unread, err := dir.History()
	if len(all) != many && len(all) != many+1 || unread > 0 || err != nil {
		t.Errorf("%d sessions, %d unread, %v", len(all), unread, err)
	}
	for _, file := range []string{HistoryFile, oldHistory} {
		if st, err := os.Stat(name + "/" + file); err != nil || st.Mode().Perm() != 0o600 || st.Size() > proc.MaxHistory+many*1100 {
			t.Errorf("%s: %v, %v", file, st, err)
		}
	}
}

// The last 500 are listed, of two files, and what is endless costs no memory.
func TestHistoryIsBounded(t *testing.T) {
	name := t.TempDir()
	dir := open(t, name)
	for i := range 3 * MaxPast {
		line := fmt.Sprintf(`{"id":"%016x","args":["%s"]}`+"\n", 1000+i, strings.Repeat("z", 1000))
		if err := dir.appendPast([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := dir.History()
	if err != nil || len(all) != MaxPast || all[MaxPast-1].ID != fmt.Sprintf("%016x", 1000+3*MaxPast-1) {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	if left, _ := os.ReadDir(name); len(left) != 2 {
		t.Errorf("left %v", left)
	}
	if err := os.Truncate(name+"/"+HistoryFile, 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := dir.appendPast([]byte(`{"id":"ffffffffffffffff"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if all, _, err := dir.History(); err != nil || len(all) != 1 {
		t.Errorf("%d sessions, %v", len(all), err)
	}
}

// Root's history is where the environment says, and elsewhere only where that says nothing, or the home is another's.
func TestStateParent(t *testing.T) {
	home := t.TempDir()
	uid := os.Getuid()
	for _, c := range []struct {
		uid         int
		state, home string
		want        string
	}{
		{uid, "/x", home, "/x"}, {uid, "", home, ""}, {0, "", "", systemState}, {0, "", "/nonexistent", systemState},
		{uid + 1, "", home, ""}, {uid + 1, "", "", ""}, {0, "/x", "", "/x"},
	} {
		if got := stateParent(c.uid, c.state, c.home); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// What reap has ended of a session that had told its end is a part of that; without such a line it is all that is known.
func TestHistoryOfWhatWasKept(t *testing.T) {
	const end = `{"id":"0000000000000001","cause":"signal","exit":143,"ended":2,"kept":1,"processes":[{"pid":7,"start":1,"command":"my-daemon -x","what":"kept: in use by 9 shim"}]}`
	const reaped = `{"id":"0000000000000001","cause":"supervisor-gone","exit":-1,"ended":1,"reaped":true,"processes":[{"pid":7,"start":1,"command":"my-daemon -x","what":"ended by reap"}]}`
	for lines, want := range map[string]struct {
		cause         string
		ended, fates  int
		reaped, found bool
	}{
		end + "\n": {"signal", 2, 1, false, true}, end + "\n" + reaped + "\n": {"signal", 3, 2, false, true}, reaped + "\n": {"supervisor-gone", 1, 1, true, true},
	} {
		dir := open(t, t.TempDir())
		if err := dir.appendPast([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		all, unread, err := dir.History()
		if err != nil || len(all) != 1 || unread > 0 {
			t.Fatalf("%d sessions, %d unread, %v", len(all), unread, err)
		}
		p := all[0]
		if p.Cause != want.cause || p.Ended != want.ended || len(p.Processes) != want.fates || p.Reaped != want.reaped || p.Says("MY-daemon") != want.found {
			t.Errorf("%q: %+v", lines, p)
		}
		if p.Says("another") {
			t.Errorf("%q has what nobody has told", lines)
		}
	}
}
