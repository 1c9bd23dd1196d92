package live

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

func fourSessions() []Session {
	var out []Session
	for i, id := range []string{"aaaa000000000000", "aaab000000000000", "bbbb000000000000", "cccc000000000000"} {
		l := Session{GatewayState: "alive"}
		l.ID, l.Name, l.Gateway, l.Parent = id, fmt.Sprint("n", i/2), proc.ID{PID: 10 + i/3, Start: 1}, proc.ID{PID: 20 + i, Start: 1}
		out = append(out, l)
	}
	return out
}

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		s    Selector
		want string // initial letters of what is picked; "" for an error
	}{
		{Selector{All: true}, "aaaa aaab bbbb cccc"},
		{Selector{IDs: []string{"b"}}, "bbbb"},
		{Selector{IDs: []string{"aaab000000000000"}}, "aaab"},
		{Selector{IDs: []string{"aaaa", "c"}}, "aaaa cccc"},
		{Selector{IDs: []string{"a"}}, ""},
		{Selector{IDs: []string{"d"}}, ""},
		{Selector{IDs: []string{"e"}}, "eeee"}, // stop says what is left of it
		{Selector{IDs: []string{"b", "d"}}, ""},
		{Selector{IDs: []string{""}}, ""},
		{Selector{Name: "n0"}, "aaaa aaab"},
		{Selector{Name: "n"}, ""},
		{Selector{Gateway: 10}, "aaaa aaab bbbb"},
		{Selector{Gateway: 23}, "cccc"}, // the direct parent, when the gateway is further up
		{Selector{Gateway: 99}, ""},
		{Selector{}, ""},
		// Once each: a second signal would cut the grace period short.
		{Selector{IDs: []string{"aaaa", "aaaa"}}, "aaaa"},
		{Selector{IDs: []string{"aaaa"}, Name: "n0"}, "aaaa aaab"},
		{Selector{Name: "n0", Gateway: 10}, "aaaa aaab bbbb"},
	} {
		over := Session{Kept: "in use by 1 x"}
		over.ID, over.Name, over.Gateway = "eeee000000000000", "n0", proc.ID{PID: 10, Start: 1}
		picked, err := c.s.Select(append(fourSessions(), over))
		var ids []string
		for _, p := range picked {
			ids = append(ids, p.ID[:4])
		}
		if got := strings.Join(ids, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v; want %q", c.s, got, err, c.want)
		}
	}
}

// An empty variable in a script, as in: mcp-tether stop "$ID".
func TestSelectEmptyID(t *testing.T) {
	if picked, err := (Selector{IDs: []string{""}}).Select(fourSessions()[:1]); err == nil {
		t.Errorf("the only session was picked: %v", picked[0].ID)
	}
}

// shown is what ps prints.
func shown(all []Session, v View) (text string) {
	for _, line := range linesOf(all, v) {
		text += v.cut(line.Text) + "\n"
	}
	return text
}

func TestText(t *testing.T) {
	l := fourSessions()[0]
	l.State, l.Cause, l.Server, l.Procs, l.MemoryBytes, l.CPUPercent, l.AgeSeconds, l.Args = "ending", "signal", proc.ID{PID: 30, Start: 1}, 2, 3<<20, 1.25, 61, []string{"npx", "x"}
	l.GatewayState = "dead"
	l.Tree = []Process{{PID: 30, MemoryBytes: 1 << 20, Command: []string{"npx", "x"}}, {PID: 31, PPID: 30, Depth: 1, MemoryBytes: 2 << 20, Command: []string{"node"}}}
	l.Containers = []display.Container{
		{Kind: engine.Container, ID: strings.Repeat("0123456789abcdef", 4), Name: "w\x1bb", Image: "mcp/x", State: "running"},
		{Kind: engine.Container, ID: strings.Repeat("ba9876543210", 5), State: "exited"},
	}
	b := shown([]Session{l}, View{Tree: true})
	const want = `SESSION           NAME  STATE            SERVER  PROCS  CONTAINERS    MEMORY  CPU   AGE    COMMAND
10 (dead)
aaaa000000000000  n0    ending (signal)  30      2      2             3M      1.2%  1m01s  npx x
                                         30                           1M                   npx x
                                         31                           2M                     node
                                                        0123456789ab                       container w?b (mcp/x, running)
                                                        ba9876543210                       container ba9876543210 (exited)
`
	if b != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// On a terminal every line fits, and says what matters.
func TestTextFitsATerminal(t *testing.T) {
	l := fourSessions()[0]
	l.State, l.Procs, l.MemoryBytes, l.AgeSeconds, l.GatewayState, l.GatewayCommand = "running", 12, 123<<20, 7261, "alive", "node /usr/lib/node_modules/openclaw/openclaw.mjs gateway"
	l.Args = []string{"/home/u/.npm/_npx/0/node_modules/.bin/server-everything", strings.Repeat("é", 80)}
	for _, c := range []struct {
		v    View
		want string
	}{
		{View{Width: 80}, "aaaa0000  n0    running  10 openclaw  12     123M    0.0%  2h01m  server-everyt…"},
		{View{Width: 80, Users: true}, "root  aaaa0000  n0    running  10 openclaw  12     123M    0.0%  2h01m  server-…"},
		{View{Width: 80, Tree: true}, "aaaa0000  n0    running  -       12     123M    0.0%  2h01m  server-everything …"},
		{View{}, "0           123M    0.0%  2h01m  /home/u/.npm/_npx/0/node_modules/.bin/server-everything " + strings.Repeat("é", 80)},
	} {
		b := shown([]Session{l}, c.v)
		lines := strings.Split(strings.Replace(b, "10 openclaw\n", "", 1), "\n") // without the line of a tree
		if len(lines) != 3 || c.v.Width > 0 && len([]rune(lines[1])) > c.v.Width || !strings.Contains(lines[1], c.want) {
			t.Errorf("%+v:\n%s\nwant %s", c.v, b, c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	for n, all := range [][]Session{nil, fourSessions()[:1]} {
		var b strings.Builder
		if err := JSON(&b, all, []string{"x"}[:n]); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Version    int
			Sessions   []map[string]any
			Incomplete []string
		}
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Version != 1 || got.Sessions == nil || len(got.Sessions) != n || len(got.Incomplete) != n {
			t.Errorf("%v, %s", err, b.String())
			continue
		}
		for _, s := range got.Sessions {
			for _, key := range []string{"id", "name", "state", "gateway", "server", "supervisor", "procs", "memory_bytes", "cpu_percent", "age_seconds", "gateway_state"} {
				if _, ok := s[key]; !ok && key != "name" {
					t.Errorf("no %s in %v", key, s)
				}
			}
		}
	}
}

// Names and command lines are text of others: nothing of it may reach a terminal as a control sequence.
func TestTextControls(t *testing.T) {
	const evil = "a\x1b[2J\u009b31m\rb"
	l := Session{GatewayState: "alive", Tree: []Process{{Command: []string{evil}}}}
	l.Name, l.State, l.Cause, l.Args = evil, evil, evil, []string{evil}
	b := shown([]Session{l}, View{Tree: true})
	for _, c := range b {
		if c != '\n' && unicode.IsControl(c) {
			t.Fatalf("%q in %q", c, b)
		}
	}
}

// The depth of a process in another user's tree is that user's word: root's ps takes any.
func TestTextAnyDepth(t *testing.T) {
	l := Session{Tree: []Process{{Depth: math.MinInt}, {Depth: -1}, {Depth: math.MaxInt}, {Depth: 1 << 40}}}
	b := shown([]Session{l}, View{Tree: true})
	if len(b) > 4096 {
		t.Errorf("%d bytes", len(b))
	}
}
