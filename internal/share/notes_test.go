package share

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"
)

const testLimit = 1 << 10

func blank() []byte { return make([]byte, notesSize(testLimit)) }

func mustOpen(t testing.TB, mem []byte) *notes {
	t.Helper()
	n, err := openNotes(mem)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// feed has the client write, as a read into the notes does.
func feed(t testing.TB, n *notes, text string) {
	t.Helper()
	for len(text) > 0 {
		room := n.room()
		if room == nil {
			t.Fatal("no room")
		}
		count := copy(room, text)
		n.took(count)
		text = text[count:]
	}
}

func openIDs(n *notes) []string {
	var out []string
	for id, count := range n.open {
		for range count {
			out = append(out, id)
		}
	}
	sort.Strings(out)
	return out
}

// What was read and not acted upon is there for the next host, wherever the last one was killed.
func TestNotesKeepUnreadInput(t *testing.T) {
	mem := blank()
	n := mustOpen(t, mem)
	feed(t, n, "first\nsecond\nthi")
	if err := n.consume(6, []string{`"a"`}); err != nil {
		t.Fatal(err)
	}
	next := mustOpen(t, mem)
	if got := string(next.unread()); got != "second\nthi" {
		t.Errorf("unread %q", got)
	}
	if got := openIDs(next); !slices.Equal(got, []string{`"a"`}) {
		t.Errorf("open %q", got)
	}
	// A read after which the host was killed, before it knew how much came.
	copy(next.room(), "rd\n")
	if got := string(mustOpen(t, mem).unread()); got != "second\nthird\n" {
		t.Errorf("unread %q", got)
	}
}

// A request whose line was not passed by consumed comes again, so it is not open.
func TestNotesForgetRequestsThatComeAgain(t *testing.T) {
	mem := blank()
	n := mustOpen(t, mem)
	feed(t, n, "x\ny\n")
	if err := n.consume(2, []string{"1"}); err != nil {
		t.Fatal(err)
	}
	if err := n.write('+', n.get(atConsumed), "2"); err != nil {
		t.Fatal(err)
	}
	n.commitLog(n.logged) // Killed here, before consumed is stored.
	next := mustOpen(t, mem)
	if got := openIDs(next); !slices.Equal(got, []string{"1"}) || string(next.unread()) != "y\n" {
		t.Errorf("open %q, unread %q", got, next.unread())
	}
}

// settle knows from what is in the pipe whether a line was written.
func TestNotesSettle(t *testing.T) {
	for _, c := range []struct {
		what        string
		middle      bool
		inPipe      int
		wantOpen    int
		wantBroken  bool
		intendOnly  bool
		answersLine bool
	}{
		{what: "nothing written", inPipe: 0, wantOpen: 1, intendOnly: true},
		{what: "all written", inPipe: 10, wantOpen: 0, intendOnly: true},
		{what: "half written", inPipe: 4, wantOpen: 1, wantBroken: true, intendOnly: true},
		{what: "a part of a line written", middle: true, inPipe: 10, wantOpen: 1, wantBroken: true, intendOnly: true},
		{what: "committed and on its way", inPipe: 0, wantOpen: 0},
		{what: "committed a part, on its way", middle: true, inPipe: 3, wantOpen: 1, wantBroken: true},
	} {
		mem := blank()
		n := mustOpen(t, mem)
		feed(t, n, "x\n")
		if err := n.consume(2, []string{"7"}); err != nil {
			t.Fatal(err)
		}
		var answers []string
		if !c.middle {
			answers = []string{"7"}
		}
		if err := n.intend(10, answers, c.middle); err != nil {
			t.Fatal(err)
		}
		if !c.intendOnly {
			n.commit(answers)
		}
		next := mustOpen(t, mem)
		broken, err := next.settle(c.inPipe)
		if err != nil || broken != c.wantBroken || len(openIDs(next)) != c.wantOpen {
			t.Errorf("%s: broken %v, open %v, %v", c.what, broken, openIDs(next), err)
		}
	}
}

// A random history: at every step a second reader of the memory knows what the writer knows.
func TestNotesAgreeWithTheirReader(t *testing.T) {
	seed := int64(1)
	r := rand.New(rand.NewSource(seed))
	mem := blank()
	n := mustOpen(t, mem)
	var written, acted strings.Builder
	open := map[string]int{}
	for step := range 20000 {
		switch r.Intn(4) {
		case 0:
			line := strings.Repeat("x", r.Intn(testLimit)) + "\n"
			if len(n.unread())+len(line) < testLimit {
				feed(t, n, line)
				written.WriteString(line)
			}
		case 1:
			if i := strings.IndexByte(string(n.unread()), '\n'); i >= 0 {
				id := fmt.Sprint(step, strings.Repeat("i", r.Intn(200)))
				acted.Write(n.unread()[:i+1])
				if err := n.consume(i+1, []string{id}); err != nil {
					t.Fatal(err)
				}
				open[id]++
			}
		default:
			for id := range open {
				if err := n.intend(5, []string{id}, false); err != nil {
					t.Fatal(err)
				}
				n.commit([]string{id})
				delete(open, id)
				break
			}
		}
		if step%97 != 0 {
			continue
		}
		next := mustOpen(t, slices.Clone(mem))
		if got, want := string(next.unread()), written.String()[acted.Len():]; got != want {
			t.Fatalf("step %d: unread %d bytes, want %d", step, len(got), len(want))
		}
		if got := openIDs(next); len(got) != len(open) || !slices.Equal(got, openIDs(n)) {
			t.Fatalf("step %d: open %d, want %d", step, len(got), len(open))
		}
	}
	if n.get(atLog) == 0 && n.logged < 1000 {
		t.Error("the log was never compacted: the test is too small")
	}
}

func TestNotesRefuseTooMuch(t *testing.T) {
	n := mustOpen(t, blank())
	feed(t, n, strings.Repeat("x", 10))
	id := strings.Repeat("i", 200<<10)
	var err error
	for i := 0; i < 8 && err == nil; i++ {
		err = n.consume(1, []string{id + fmt.Sprint(i)})
	}
	if !errors.Is(err, errTooMany) {
		t.Errorf("a megabyte of ids: %v", err)
	}
	if err := n.keep(make([]byte, keptSize+1)); !errors.Is(err, errTooMany) {
		t.Errorf("kept: %v", err)
	}
}

func TestNotesKeepState(t *testing.T) {
	mem := blank()
	n := mustOpen(t, mem)
	for _, state := range []string{"one", "two", "three, and longer", "4"} {
		if err := n.keep([]byte(state)); err != nil {
			t.Fatal(err)
		}
		if got := string(mustOpen(t, mem).state()); got != state {
			t.Errorf("kept %q, want %q", got, state)
		}
	}
}

// Any memory is read, or refused.
func FuzzNotes(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint16(0))
	mem := blank()
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		// The memory has megabytes, so it is not made anew for each input.
		clear(mem[:headerSize+logSize/8])
		clear(mem[inputAt:])
		n := mustOpen(t, mem)
		feed(t, n, "line\n")
		if err := n.consume(2, []string{"1"}); err != nil {
			t.Fatal(err)
		}
		copy(mem[int(at)%(headerSize+64):], b)
		next, err := openNotes(mem)
		if err != nil {
			return
		}
		_, _ = next.settle(3)
		_ = next.state()
		_ = next.room()
	})
}
