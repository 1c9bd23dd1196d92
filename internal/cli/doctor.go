package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/doctor"
	"mcp-tether/internal/engine"
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

func examine(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("doctor takes no arguments, got " + c.Args().First())
	}
	all := append(doctor.All(runtimeDir()), leaks()...)
	var err error
	if c.Bool("json") {
		err = doctor.JSON(os.Stdout, all)
	} else {
		on := display.Coloured(os.Stdout)
		colours := map[doctor.State]string{doctor.OK: display.Green, doctor.Warn: display.Yellow, doctor.Fail: display.Red}
		err = doctor.Text(os.Stdout, all, func(s doctor.State, text string) string { return display.Paint(on, colours[s], text) })
	}
	if err != nil {
		return err
	}
	if doctor.Failed(all) {
		return status{code: exitFindings}
	}
	return nil
}

// leakTimeout bounds the pass that finds leaks, because reading a stuck process or file may never return.
const leakTimeout = 20 * time.Second

// leaks makes a pass of reap that ends nothing.
func leaks() []doctor.Check {
	o := reap.Options{Runtime: runtimeDir(), Timeout: leakTimeout, Engines: reap.Engines{URL: os.Getenv(engine.EnvURL)}}
	files, _ := configured(&o, nil, false) // which fails for named files only
	matcher := clients.NewMatcher(files, nil)
	o.Rules = reap.Rules{Match: matcher.Match, SurplusOver: surplusOver}
	if os.Getuid() == 0 {
		o.ForUsers = []string{"reap", "--json"}
	}
	return leaking(passInTime(o))
}

func leaking(r reap.Report, err error) []doctor.Check {
	if err != nil {
		return []doctor.Check{{About: doctor.AboutLeaks, State: doctor.Warn, Found: err.Error(), Cure: "mcp-tether reap"}}
	}
	var all []doctor.Check
	for _, f := range r.Findings {
		c := doctor.Check{About: doctor.AboutLeaks, State: doctor.Fail, Cure: "mcp-tether reap --kill",
			Count: doctor.Count{Processes: len(f.Members) + len(f.Containers), MemoryBytes: f.MemoryBytes}}
		switch string(f.Class) {
		case "severed", "dropped":
			c.Cure += " --unwrapped"
		case "suspect", "surplus":
			c.State, c.Cure = doctor.Warn, f.Advice
		}
		c.Found = fmt.Sprintf("%s: %s: %d processes, %s", f.Class, display.Command(f.Command), len(f.Members), strings.Join(f.Evidence, "; "))
		all = append(all, c)
	}
	for _, w := range r.Incomplete {
		all = append(all, doctor.Check{About: doctor.AboutLeaks, State: doctor.Warn, Found: "not looked at: " + w, Cure: "mcp-tether reap"})
	}
	if len(all) == 0 {
		return []doctor.Check{{About: doctor.AboutLeaks, State: doctor.OK, Found: "nothing that outlived its session"}}
	}
	return all
}
