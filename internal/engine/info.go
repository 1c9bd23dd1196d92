package engine

import (
	"encoding/json"
	"strings"
	"time"
)

// Kind is the kind of an engine's object.
type Kind string

// The kinds.
const (
	Container Kind = "container"
	Pod       Kind = "pod" // podman's
	Network   Kind = "network"
	Volume    Kind = "volume" // labelled, and never removed by name: it may hold data
)

// Info is what an engine says about an object. Fields marked (inspect) are zero when the Info comes from a list.
type Info struct {
	Kind    Kind
	ID      string
	Name    string // without the leading '/'
	Image   string // as the create request named it
	ImageID string
	State   string // created, running, paused, restarting, removing, exited, dead; podman has others
	Labels  map[string]string
	Created time.Time // by the engine's clock; in a list of containers cut to seconds
	Running bool      // true while paused or restarting as well
	Paused  bool
	// StopSignal (inspect) is a name or number; "" for SIGTERM.
	StopSignal string
	// Interactive (inspect) says that it has a standard input, as with `docker run -i`.
	Interactive bool
}

// IsKept reports whether its client wants the object to outlive the session.
func (i *Info) IsKept() bool { return i.Labels[LabelKeep] == "1" }

// listedContainer is an entry of /containers/json.
type listedContainer struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	ImageID string
	Created int64 // seconds
	State   string
	Labels  map[string]string
}

func (x listedContainer) info(kind Kind) Info {
	return Info{
		Kind: kind, ID: x.ID, Name: mainName(x.Names), Image: x.Image, ImageID: x.ImageID, State: x.State,
		Labels: x.Labels, Created: time.Unix(x.Created, 0),
		Running: x.State == "running" || x.State == "paused" || x.State == "restarting", Paused: x.State == "paused",
	}
}

// mainName picks a container's name among the aliases that links give it: /NAME, not /OTHER/ALIAS.
func mainName(names []string) string {
	for _, name := range names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			return name
		}
	}
	return ""
}

// listedObject is an entry of /networks or /libpod/pods/json.
type listedObject struct {
	ID      string `json:"Id"`
	Name    string
	Status  string // of a pod
	Created time.Time
	Labels  map[string]string
}

func (x listedObject) info(kind Kind) Info {
	return Info{
		Kind: kind, ID: x.ID, Name: x.Name, State: strings.ToLower(x.Status), Labels: x.Labels, Created: x.Created,
		Running: x.Status == "Running" || x.Status == "Degraded",
	}
}

// inspected is the response of /containers/ID/json.
type inspected struct {
	ID      string `json:"Id"`
	Name    string
	Image   string // its id
	Created time.Time
	State   struct {
		Status          string
		Running, Paused bool
	}
	Config struct {
		Image      string
		Labels     map[string]string
		StopSignal string
		OpenStdin  bool
	}
}

func (x inspected) info() Info {
	return Info{
		Kind: Container, ID: x.ID, Name: strings.TrimPrefix(x.Name, "/"), Image: x.Config.Image, ImageID: x.Image,
		State: x.State.Status, Labels: x.Config.Labels, Created: x.Created,
		Running: x.State.Running || x.State.Paused, Paused: x.State.Paused, StopSignal: x.Config.StopSignal,
		Interactive: x.Config.OpenStdin,
	}
}

// errorText returns what an engine says about an error, cut to one short line.
func errorText(body []byte) string {
	var x struct{ Message string }
	text := string(body)
	if json.Unmarshal(body, &x) == nil && x.Message != "" {
		text = x.Message
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
