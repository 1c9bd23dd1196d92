package display

import (
	"fmt"
	"strings"

	"mcp-tether/internal/engine"
)

// Container is an object of a container engine as reap and ps show it.
type Container struct {
	// Engine is the URL of its engine.
	Engine string      `json:"engine"`
	Kind   engine.Kind `json:"kind"`
	ID     string      `json:"id"`
	Name   string      `json:"name,omitempty"`
	Image  string      `json:"image,omitempty"`
	// State is the engine's word for its state, "" for a network.
	State string `json:"state,omitempty"`
	// Why is the proof that it belongs to the session, or what is missing from it.
	Why string `json:"why,omitempty"`
	// Result is what became of it: "listed", "removed" or "survived". ps leaves it empty.
	Result string `json:"result,omitempty"`
}

// shortID is how many characters of an id engines show.
const shortID = 12

// ShortID is the id as engines show it.
func (c Container) ShortID() string { return c.ID[:min(len(c.ID), shortID)] }

// Title is the container for people: "container web (mcp/fetch, running)". It may hold control characters.
func (c Container) Title() string {
	about := c.State
	if c.Image != "" {
		about = strings.TrimSuffix(c.Image+", "+c.State, ", ")
	}
	name := c.Name
	if name == "" {
		name = c.ShortID()
	}
	if about == "" {
		return string(c.Kind) + " " + name
	}
	return fmt.Sprintf("%s %s (%s)", c.Kind, name, about)
}
