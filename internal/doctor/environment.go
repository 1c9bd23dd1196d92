package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// program asks whether clients find this program by its name.
func program() Check {
	own, err := os.Executable()
	if err != nil {
		return poor(Warn, "program", "", "its path is not known: %v", err)
	}
	found, err := exec.LookPath(clients.Program)
	if err != nil {
		return poor(Warn, "program", "add "+filepath.Dir(own)+" to PATH; wrap writes the whole path until then", "%s is not found by its name", own)
	}
	a, errA := os.Stat(own)
	b, errB := os.Stat(found)
	// The launcher of our npm package becomes this program, which is not beside it: so it is after an installation without scripts.
	target, _ := filepath.EvalSymlinks(found)
	if errA == nil && errB == nil && !os.SameFile(a, b) && !strings.HasSuffix(target, "/node_modules/mcp-tether/mcp-tether") {
		return poor(Warn, "program", "remove one of the two", "clients that look for mcp-tether find %s, and this is %s", found, own)
	}
	return good("program", "%s", found)
}

// askEngine asks the container engine that a session's clients would use. ok is false where none is in sight.
func askEngine() (c Check, ok bool) {
	e, ok, err := engine.Resolve(os.Getenv(engine.EnvURL), os.Getenv)
	if err != nil {
		return poor(Warn, "engine", "docker context ls, or --containers=off for sessions without one", "containers do not end with their session: %v", err), true
	}
	if !ok {
		return Check{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), proc.EngineTime)
	defer cancel()
	if err := (engine.Client{Dial: e.Dial}).Ping(ctx); err != nil {
		return poor(Warn, "engine", "start it, or give the user access to its socket; --containers=off for sessions without one",
			"%s (%s): %v", e.URL, e.From, err), true
	}
	return good("engine", "%s (%s) answers: containers end with their session", e.URL, e.From), true
}

// examineClients reads the configurations of the clients that are here.
func examineClients() []Check {
	home, err := os.UserHomeDir()
	if err != nil {
		return []Check{poor(Warn, aboutClients, "set HOME", "%v", err)}
	}
	var places []clients.Place
	all := inTime(aboutClients, home, func() []Check {
		found := clients.Places(home)
		for _, file := range clients.InProject(home) {
			found = append(found, clients.PlaceOf("", file))
		}
		if len(found) == 0 {
			return []Check{poor(Warn, aboutClients, "mcp-tether wrap FILE, for a client that is not known", "no configuration of a known client below %s", home)}
		}
		places = found
		return nil
	})
	if len(all) > 0 {
		return all
	}
	for _, p := range places {
		all = append(all, inTime(aboutClients, p.Path, func() []Check { return client(p) })...)
	}
	return all
}

// client examines the servers in one file, and what keeps some from being wrapped.
func client(p clients.Place) []Check {
	cure, title := "mcp-tether wrap "+p.Client.Name, p.Client.Title+", "+p.Path
	switch {
	case p.Client.Name == "":
		cure, title = "mcp-tether wrap "+p.Path, "this project's "+p.Path
	case p.Bundled:
		cure = "updates write this file anew: disable what brings the servers, and add them to " + p.Client.Title + " by hand:"
	}
	d, err := clients.OpenDocument(p)
	if errors.Is(err, clients.ErrLink) {
		if to, lerr := filepath.EvalSymlinks(p.Path); lerr == nil {
			p.Path, cure = to, "mcp-tether wrap "+to
			d, err = clients.OpenDocument(p)
		}
	}
	var plan clients.Plan
	if err == nil {
		plan, err = d.Plan(clients.Options{}, func(string) bool { return true })
	}
	if err != nil {
		return []Check{poor(Warn, aboutClients, "read that file", "%s: %v", title, err)}
	}
	var bare []string
	var listed []Check
	for i := range plan.Changes {
		switch c := &plan.Changes[i]; {
		case errors.Is(c.Err, clients.ErrListed):
			listed = append(listed, poor(Warn, aboutClients, "ask who keeps the list (docs/wrap.md)", "%s: %s: %v", title, c.Name, c.Err))
		case c.Bare():
			if bare = append(bare, c.Name); p.Bundled {
				cure += " " + display.Command(c.New) + ";"
			}
		}
	}
	servers := len(plan.Changes) - len(listed)
	c := good(aboutClients, "%s: %d of %d servers are wrapped", title, servers, len(plan.Changes))
	if len(bare) > 0 {
		c = poor(Warn, aboutClients, cure, "%s: %d of %d servers not wrapped: %s", title, len(bare), len(plan.Changes), strings.Join(bare, ", "))
	}
	c.Servers, c.Bare = servers, len(bare)
	return append([]Check{c}, listed...)
}
