package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
)

// examineClients reads the configurations of the clients that are here.
func examineClients() []check {
	const about = "clients"
	var places []clients.Place
	all := inTime(about, "the home directory", func() []check {
		home, err := os.UserHomeDir()
		if err != nil {
			return []check{warn("set HOME", "%v", err)}
		}
		found := clients.Places(home)
		for _, file := range clients.InProject(home) {
			found = append(found, clients.PlaceOf("", file))
		}
		if len(found) == 0 {
			return []check{warn("mcp-tether wrap FILE, for a client that is not known", "no configuration of a known client below %s", home)}
		}
		places = found
		return nil
	})
	if len(all) > 0 {
		return all
	}
	for _, p := range places {
		all = append(all, inTime(about, p.Path, func() []check { return client(p) })...)
	}
	return all
}

// client examines the servers in one file, and what keeps some from being wrapped.
func client(p clients.Place) []check {
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
		return []check{warn("read that file", "%s: %v", title, err)}
	}
	var bare []string
	var listed []check
	for i := range plan.Changes {
		switch c := &plan.Changes[i]; {
		case errors.Is(c.Err, clients.ErrListed):
			listed = append(listed, warn("ask who keeps the list (docs/wrap.md)", "%s: %s: %v", title, c.Name, c.Err))
		case c.Bare():
			if bare = append(bare, c.Name); p.Bundled {
				cure += " " + display.Command(c.New) + ";"
			}
		}
	}
	servers := len(plan.Changes) - len(listed)
	c := good("%s: %d of %d servers are wrapped", title, servers, len(plan.Changes))
	if len(bare) > 0 {
		c = warn(cure, "%s: %d of %d servers not wrapped: %s", title, len(bare), len(plan.Changes), strings.Join(bare, ", "))
	}
	c.Servers, c.Bare = servers, len(bare)
	return append([]check{c}, listed...)
}
