package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

// Program asks whether clients find this program by its name.
func Program() Check {
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
	if errA == nil && errB == nil && !os.SameFile(a, b) && !launches(found, own) {
		return poor(Warn, "program", "remove one of the two", "clients that look for mcp-tether find %s, and this is %s", found, own)
	}
	return good("program", "%s", found)
}

// launches reports whether a program that was found is the launcher of our npm package, and own the binary of a platform's
// package, which the launcher becomes. So it is after an installation without scripts. That package is beside the launcher's,
// with pnpm as a link, or below it. One of another installation is another program.
func launches(found, own string) bool {
	const name = clients.Program
	found, err := filepath.EvalSymlinks(found)
	dir, platform := filepath.Dir(filepath.Dir(found)), filepath.Base(filepath.Dir(own))
	if err != nil || found != filepath.Join(dir, name, name) || filepath.Base(dir) != "node_modules" || !strings.HasPrefix(platform, name+"-") {
		return false
	}
	for _, in := range []string{filepath.Join(dir, name, "node_modules"), dir} {
		if becomes, err := filepath.EvalSymlinks(filepath.Join(in, platform, name)); err == nil {
			return becomes == own
		}
	}
	return false
}

// Engine asks the container engine that a session's clients would use. ok is false where none is in sight.
func Engine() (c Check, ok bool) {
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

// Clients reads the configurations of the clients that are here.
func Clients() []Check {
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
	files := map[string]int{}
	for _, p := range places {
		files[p.Client.Name]++
	}
	for _, p := range places {
		all = append(all, inTime(aboutClients, p.Path, func() []Check { return client(p, files[p.Client.Name] > 1) })...)
	}
	return all
}

// client examines the servers in one file, and what keeps some from being wrapped. One of several of a client is named.
func client(p clients.Place, several bool) []Check {
	cure, title := "mcp-tether wrap "+p.Client.Name, p.Client.Title
	if title == "" {
		cure, title = "mcp-tether wrap "+p.Path, "this project's "+p.Path
	}
	if p.Bundled || several && p.Client.Name != "" {
		title += ", " + p.Path
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
		if !strings.Contains(title, p.Path) {
			title += ": " + p.Path
		}
		return []Check{poor(Warn, aboutClients, "read that file", "%s: %v", title, err)}
	}
	var bare, own []string
	var listed []Check
	for i := range plan.Changes {
		switch c := &plan.Changes[i]; {
		case errors.Is(c.Err, clients.ErrListed):
			listed = append(listed, poor(Warn, aboutClients, "ask who keeps the list (docs/wrap.md)", "%s: %s: %v", title, c.Name, c.Err))
		case errors.Is(c.Err, clients.ErrIndirect):
			own = append(own, c.Name)
		case c.Bare():
			if bare = append(bare, c.Name); p.Bundled {
				cure = byHand(p.Client.Title, bare, c.Line)
			}
		}
	}
	return append([]Check{summary(title, cure, len(plan.Changes), bare, own, len(listed))}, listed...)
}

// byHand says how to wrap a server in a file that is written anew.
func byHand(client string, names, line []string) string {
	if len(line) == 0 {
		return "disable what brings it, and add the server to " + client + " by hand, behind mcp-tether run"
	}
	words, _ := json.Marshal(line[1:]) // texts have no errors
	return fmt.Sprintf("updates write this file anew: disable what brings %s, and add the server to %s by hand: \"command\": %q, \"args\": %s",
		strings.Join(names, ", "), client, line[0], words)
}

// summary says how many servers of a file are wrapped.
func summary(title, cure string, all int, bare, own []string, listed int) Check {
	how, n := "wrapped", fmt.Sprintf("%d servers, all ", all)
	if len(own) > 0 {
		how = "wrapped, or started by mcp-tether in a way of its own"
	}
	if all == 1 {
		n = "1 server, "
	}
	c := good(aboutClients, "%s: %s%s", title, n, how)
	switch {
	case len(bare) > 0:
		c = poor(Warn, aboutClients, cure, "%s: %d of %d servers not wrapped: %s", title, len(bare), all, strings.Join(bare, ", "))
	case all == 0:
		c = good(aboutClients, "%s: no servers that run as processes", title)
	case listed > 0:
		c = good(aboutClients, "%s: %d of %d servers are wrapped or need not be", title, all-listed, all)
	}
	c.Servers, c.Bare = all-listed, len(bare)
	return c
}
