package cli

import (
	"fmt"
	"io"
	"slices"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
)

// show prints what would change in a file, and what is left alone.
func (j *job) show(w io.Writer, unwrap, check bool) {
	named := slices.ContainsFunc(j.plan.Changes, func(ch clients.Change) bool { return ch.Wrapped || ch.Err != nil })
	if j.err != nil || unwrap && !named {
		return
	}
	on := display.Coloured(w)
	title := display.Text(j.Path)
	if j.Client.Title != "" {
		title += " (" + j.Client.Title + ")"
	}
	fmt.Fprintln(w, display.Paint(on, display.Bold, title))
	for _, name := range j.plan.Remote {
		if !unwrap {
			fmt.Fprintf(w, "  %s: reached by network, nothing to wrap\n", display.Text(name))
		}
	}
	for _, name := range j.plan.Unread {
		fmt.Fprintf(w, "  %s: left alone: %s\n", display.Text(name), notSaid)
	}
	if len(j.plan.Changes)+len(j.plan.Remote)+len(j.plan.Unread) == 0 && !check {
		fmt.Fprintln(w, "  "+errNoServers.Error())
	}
	for i := range j.plan.Changes {
		ch := &j.plan.Changes[i]
		fmt.Fprintf(w, "  %s: %s\n", display.Text(ch.Name), state(ch, unwrap, check))
		if warning := warningOf(ch, unwrap); warning != "" {
			fmt.Fprintln(w, "    "+warning)
		}
		if ch.Edited && !check {
			fmt.Fprintln(w, display.Paint(on, display.Red, "  - "+display.Command(ch.Old)))
			fmt.Fprintln(w, display.Paint(on, display.Green, "  + "+display.Command(ch.New)))
		}
	}
}

// warningOf says what may go wrong with a server that is to be wrapped; "" for most.
func warningOf(ch *clients.Change, unwrap bool) string {
	if unwrap || !ch.Edited || !clients.GoesByParent(ch.New) {
		return ""
	}
	return "it goes by its parent, which is mcp-tether then: if it does not find its client, unwrap it (--server NAME)"
}

// state says what becomes of a server, or with check, what it is.
func state(ch *clients.Change, unwrap, check bool) string {
	switch {
	case ch.Err != nil:
		return "left alone: " + display.Error(ch.Err)
	case ch.Edited && !check && unwrap:
		return "to be unwrapped"
	case ch.Edited && !check && ch.Wrapped:
		return "wrapped, to be started otherwise"
	case ch.Edited && !check:
		return "to be wrapped"
	case ch.Wrapped:
		return "wrapped"
	}
	return "not wrapped"
}
