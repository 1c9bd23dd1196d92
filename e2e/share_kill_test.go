package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// callsAtOnce is how many calls of a client are open in a stream.
const callsAtOnce = 4

// stream makes calls, callsAtOnce at a time, and expects exactly one answer to each, a result or an error.
func (c *sharer) stream(calls int) (results int, err error) {
	open := map[int]string{}
	first := c.id
	for made, answered := 0, 0; answered < calls; {
		for len(open) < callsAtOnce && made < calls {
			c.id++
			made++
			// Now and then a message that does not fit into a pipe.
			text := fmt.Sprintf("%d of %d", c.id, c.cmd.Process.Pid)
			if c.id%16 == 0 {
				text += strings.Repeat("x", 200<<10)
			}
			open[c.id] = text
			_ = c.in.SetWriteDeadline(time.Now().Add(testkit.Patience))
			if _, err := c.in.WriteString(toolCall(c.id, "echo", text) + "\n"); err != nil {
				return results, fmt.Errorf("write call %d: %w", c.id, err)
			}
		}
		_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
		line, err := c.read.ReadString('\n')
		if err != nil {
			return results, fmt.Errorf("read, with %d calls open: %w", len(open), err)
		}
		var r reply
		if strings.TrimSpace(line) == "" || json.Unmarshal([]byte(line), &r) != nil || r.Method != "" {
			continue // The first half of a line, or a notification.
		}
		text, asked := open[*r.ID]
		switch {
		case !asked && *r.ID <= first:
			return results, fmt.Errorf("a second answer to an earlier call: %.100s", line)
		case !asked:
			return results, fmt.Errorf("a second answer: %.100s", line)
		case r.Error == nil && !strings.Contains(string(r.Result), text):
			return results, fmt.Errorf("call %d got the answer of another: %.100s", *r.ID, line)
		case r.Error == nil:
			results++
		}
		delete(open, *r.ID)
		answered++
	}
	return results, nil
}

// The host is killed at any moment, again and again: no call is lost or answered twice, and nothing is left. A kill costs a client
// the calls that it had open, and no more.
func TestShareKilledAnywhere(t *testing.T) {
	t.Parallel()
	from := newSeed(t)
	s := share(t)
	clients := []*sharer{s.client(), s.client(), s.client()}
	kills := 0
	for round := 0; round < testkit.Rounds(6) || kills == 0; round++ {
		after := from.between(0, 12*time.Millisecond)
		var wg sync.WaitGroup
		errs, results := make([]error, len(clients)), make([]int, len(clients))
		const calls = 40
		for i, c := range clients {
			wg.Go(func() { results[i], errs[i] = c.stream(calls) })
		}
		testkit.Until(t, "a host", func() bool { return len(s.with("\x00__host\x00")) > 0 })
		killed := 0
		wg.Go(func() {
			pause(after)
			for _, p := range s.with("\x00__host\x00") {
				if unix.Kill(p.PID, unix.SIGKILL) == nil {
					killed++
				}
			}
		})
		wg.Wait()
		kills += killed
		for i, err := range errs {
			// A kill of the last round may be seen in this one.
			if err == nil && results[i] < calls-callsAtOnce*(killed+1) {
				err = fmt.Errorf("%d of %d calls had a result", results[i], calls)
			}
			if err != nil {
				t.Fatalf("round %d, %d killed after %v, client %d: %v", round, killed, after, i, err)
			}
		}
	}
	for _, c := range clients {
		testkit.Until(t, "an answer after the last kill", c.try)
		c.close()
	}
	kill(t, s.host(), unix.SIGTERM)
	s.wantGone()
}

// Something dies while sessions start: the others come up all the same, and nothing is left.
func TestShareKilledAtStart(t *testing.T) {
	t.Parallel()
	from := newSeed(t)
	victims := []string{"\x00__host\x00", "\x00__launch\x00", "\x00run\x00--share\x00", "\x00__session\x00--share=false\x00"}
	first := from.IntN(len(victims))
	for round := range testkit.Rounds(5) {
		victim, after := victims[(first+round)%len(victims)], from.between(0, 12*time.Millisecond)
		s := share(t)
		clients := make([]*sharer, 3)
		for i := range clients {
			clients[i] = s.attach()
			clients[i].write(initialize(version))
		}
		pause(after)
		killed := 0
		for _, p := range s.with("^" + tether + victim) {
			if unix.Kill(p.PID, unix.SIGKILL) != nil {
				continue
			}
			if strings.Contains(victim, "run\x00--share\x00") {
				killed = p.PID
			}
			if killed > 0 || strings.Contains(victim, "__session") { // Of a session whose processes are all killed the record stays.
				break
			}
		}
		for _, c := range clients {
			if c.cmd.Process.Pid == killed {
				continue
			}
			// A handshake that was under way when its host or server was killed gets an error.
			for r := c.answer(0); r.Result == nil; r = c.answer(0) {
				c.write(initialize(version))
			}
			c.write(initialized)
			// The server of a session that has lost a process ends soon, perhaps after its first answers.
			testkit.Until(t, "an answer of a server that lasts", c.try)
		}
		for _, c := range clients {
			if c.cmd.Process.Pid != killed {
				c.close()
			}
		}
		s.end()
		if t.Failed() {
			t.Fatalf("round %d: killed %q after %v", round, victim, after)
		}
	}
}
