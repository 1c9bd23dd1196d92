package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/engine"
)

// Program asks whether clients find this program by its name.
func Program() Check {
	own, err := os.Executable()
	if err != nil {
		return poor(Warn, "program", "", "its path is not known: %v", err)
	}
	found, err := exec.LookPath(clients.Program)
	if err != nil {
		return poor(Warn, "program", "add "+filepath.Dir(own)+" to PATH, or use: mcp-tether wrap --absolute", "%s is not found by its name", own)
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

// engineTimeout bounds a question to an engine.
const engineTimeout = 3 * time.Second

// Engine asks the container engine that a session's clients would use. ok is false where none is in sight.
func Engine() (c Check, ok bool) {
	e, ok, err := engine.Resolve(os.Getenv(engine.EnvURL), os.Getenv)
	if err != nil {
		return poor(Warn, "engine", "docker context ls, or --containers=off for sessions without one", "containers do not end with their session: %v", err), true
	}
	if !ok {
		return Check{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
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
		found, err := clients.Here(home, nil)
		for _, file := range clients.InProject(home) {
			found = append(found, clients.PlaceOf("", file))
		}
		if err != nil || len(found) == 0 {
			return []Check{poor(Warn, aboutClients, "mcp-tether wrap FILE, for a client that is not known", "no configuration of a known client below %s", home)}
		}
		places = found
		return nil
	})
	if len(all) > 0 {
		return all
	}
	for _, p := range places {
		all = append(all, inTime(aboutClients, p.Path, func() []Check { return []Check{client(p)} })...)
	}
	return all
}

func client(p clients.Place) Check {
	cure, title := "mcp-tether wrap "+p.Client.Name, p.Client.Title
	if title == "" {
		cure, title = "mcp-tether wrap "+p.Path, "this project's "+p.Path
	}
	d, err := clients.OpenDocument(p.Path, p.Format)
	if errors.Is(err, clients.ErrLink) {
		if to, lerr := filepath.EvalSymlinks(p.Path); lerr == nil {
			cure = "mcp-tether wrap " + to
			d, err = clients.OpenDocument(to, p.Format)
		}
	}
	if errors.Is(err, clients.ErrByHand) {
		return poor(Warn, aboutClients, "write by hand: "+p.Client.ByHand(), "%s: %s: %v", title, p.Path, err)
	}
	if err != nil {
		return poor(Warn, aboutClients, "read that file", "%s: %s: %v", title, p.Path, err)
	}
	r, err := clients.Rewrite(d.Text, d.Format, clients.Wrapping{}, func(string) bool { return true })
	if err != nil {
		return poor(Warn, aboutClients, "read that file", "%s: %s: %v", title, p.Path, err)
	}
	var bare []string
	how := "wrapped"
	for _, c := range r.Changes {
		switch {
		case errors.Is(c.Err, clients.ErrIndirect):
			how = "wrapped, or started by mcp-tether in a way of its own"
		case !c.Wrapped:
			bare = append(bare, c.Name)
		}
	}
	c := good(aboutClients, "%s: %d servers, all %s", title, len(r.Changes), how)
	switch {
	case len(bare) > 0:
		c = poor(Warn, aboutClients, cure, "%s: %d of %d servers not wrapped: %s", title, len(bare), len(r.Changes), strings.Join(bare, ", "))
	case len(r.Changes) == 0:
		c = good(aboutClients, "%s: no servers that run as processes", title)
	case len(r.Changes) == 1:
		c = good(aboutClients, "%s: 1 server, %s", title, how)
	}
	c.Servers, c.Bare = len(r.Changes), len(bare)
	return c
}
