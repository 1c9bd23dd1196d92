package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
	"mcp-tether/reap"
)

const doctorHelp = `Says what this machine can do for sessions, which clients' servers are
not wrapped, and what is leaking now. The first line is the verdict, each
other one is ok, warn or fail, with the cure. It changes nothing.

Exit code: 0 nothing is wrong, 1 something is (a line with fail), 2 wrong
command line, or the result cannot be written. What it could not read is
a line with warn.

Examples:
   mcp-tether doctor
   mcp-tether doctor --json | jq '.checks[] | select(.state != "ok")'`

// check is what was found about one thing.
type check struct {
	About string `json:"about"`
	State string `json:"state"`
	Found string `json:"found"`
	// Cure says what to do; "" where all is well.
	Cure string `json:"cure,omitempty"`
	// Servers are those in a client's configuration, and Bare those of them that are not wrapped.
	Servers int `json:"servers,omitempty"`
	Bare    int `json:"not_wrapped,omitempty"`
	// Processes are those of a leak, and MemoryBytes what they hold.
	Processes   int    `json:"processes,omitempty"`
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
}

// The states. With stateWarn sessions work, with less than they could have.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

func good(found string, args ...any) check {
	return check{State: stateOK, Found: fmt.Sprintf(found, args...)}
}

func warn(cure, found string, args ...any) check {
	return check{State: stateWarn, Cure: cure, Found: fmt.Sprintf(found, args...)}
}

func fail(cure, found string, args ...any) check {
	return check{State: stateFail, Cure: cure, Found: fmt.Sprintf(found, args...)}
}

// checkTime is how long what concerns one thing may take. It is longer than an engine's time for both connection and answer.
const checkTime = 2*proc.EngineTime + time.Second

// inTime makes checks that may never end, for example at a file system that does not answer. read is what they read.
func inTime(about, read string, do func() []check) []check {
	all := []check{warn("see which file system does not answer", "%s could not be read in time", read)}
	var made []check
	if proc.InTime(checkTime, func() { made = do() }) {
		all = made
	}
	return name(about, all)
}

// name says what checks are about.
func name(about string, all []check) []check {
	for i := range all {
		all[i].About = about
	}
	return all
}

func doctor(c *cli.Context) error {
	all := slices.Concat(machine(runtimeDir()), examineClients(), name(aboutLeaks, leaks()))
	var err error
	if c.Bool("json") {
		err = display.JSON(os.Stdout, struct {
			Version int     `json:"version"`
			Verdict string  `json:"verdict"`
			Checks  []check `json:"checks"`
		}{display.SchemaVersion, verdict(all), all})
	} else {
		err = printChecks(os.Stdout, all)
	}
	if err == nil && slices.ContainsFunc(all, func(c check) bool { return c.State == stateFail }) {
		return status{code: exitFindings}
	}
	return err
}

// printChecks prints the verdict, one line for each check, and one for its cure.
func printChecks(w io.Writer, all []check) error {
	on := display.Coloured(w)
	colours := map[string]string{stateOK: display.Green, stateWarn: display.Yellow, stateFail: display.Red}
	text := verdict(all) + "\n"
	for _, c := range all {
		text += fmt.Sprintf("%s  %-9s  %s\n", display.Paint(on, colours[c.State], fmt.Sprintf("%-4s", c.State)), c.About, display.Text(c.Found))
		if c.Cure != "" {
			text += fmt.Sprintf("      %-9s  -> %s\n", "", display.Text(c.Cure))
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// verdict says in a line what matters most in all checks: what leaks, what else is wrong, and what is not wrapped.
func verdict(all []check) string {
	leaked, maybe, memory, servers, bare := 0, false, uint64(0), 0, 0
	var wrong []string
	for _, c := range all {
		servers, bare = servers+c.Servers, bare+c.Bare
		switch {
		case c.About == aboutLeaks && c.State == stateFail:
			leaked, memory = leaked+1, memory+c.MemoryBytes
		case c.About == aboutLeaks:
			maybe = maybe || c.State == stateWarn
		case c.State == stateFail && !slices.Contains(wrong, c.About):
			wrong = append(wrong, c.About)
		}
	}
	said := "nothing leaks"
	switch {
	case leaked > 0:
		said = fmt.Sprint("leaks: ", leaked)
		if memory > 0 {
			said += fmt.Sprintf(", with %s of memory", display.Size(memory))
		}
	case maybe:
		said = "nothing is proven to leak"
	}
	if len(wrong) > 0 {
		said += "; " + strings.Join(wrong, ", ") + " failed"
	}
	if servers == 0 {
		return said + "; no server was found in a configuration"
	}
	return said + fmt.Sprintf("; %d of %d servers are wrapped", servers-bare, servers)
}

const aboutLeaks = "leaks"

// leakTimeout bounds the pass that finds leaks, because reading a stuck process or file may never return.
const leakTimeout = 20 * time.Second

// leaks makes a pass of reap that ends nothing.
func leaks() []check {
	o := reap.Options{Runtime: runtimeDir(), Timeout: leakTimeout, Engines: reap.Engines{URL: os.Getenv(engine.EnvURL)}}
	servers, _ := configured(&o, nil, false) // which fails for named files only
	o.Rules = reap.Rules{Match: clients.NewMatcher(servers, nil).Match, SurplusOver: surplusOver}
	if os.Getuid() == 0 {
		o.ForUsers = []string{"reap", "--json"}
	}
	r, err := passInTime(o)
	if err != nil {
		return []check{warn("mcp-tether reap", "%v", err)}
	}
	var all []check
	for _, f := range r.Findings {
		c := fail("mcp-tether reap --kill", "%s: %s: %d processes, %s", f.Class, display.Command(f.Command), len(f.Members), strings.Join(f.Evidence, "; "))
		c.Processes, c.MemoryBytes = len(f.Members)+len(f.Containers), f.MemoryBytes
		switch string(f.Class) {
		case "severed", "dropped":
			c.Cure += " --unwrapped"
		case "suspect", "surplus":
			c.State, c.Cure = stateWarn, f.Advice
		}
		all = append(all, c)
	}
	for _, w := range r.Incomplete {
		all = append(all, warn("mcp-tether reap", "not looked at: %s", w))
	}
	if len(all) == 0 {
		return []check{good("nothing that outlived its session")}
	}
	return all
}
