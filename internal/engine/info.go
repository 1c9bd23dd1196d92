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
	Volume    Kind = "volume" // labelled, and removed only with the container it was made for: it may hold data
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
	// Initialized (inspect) says that podman has made the container's first process, and not started it.
	Initialized bool
	StartedAt   time.Time // (inspect) zero if it was never started
	Restarts    int       // (inspect) by its restart policy, since a client started it
	StopSignal  string    // (inspect) name or number; "" for SIGTERM
	AutoRemove  bool      // (inspect) --rm
	// SharesVolumes (inspect) says that the container may have anonymous volumes of a container that is not the session's.
	SharesVolumes bool
	// Anonymous (inspect) are the names of the volumes that the engine made for this container alone. It is nil if
	// there are none, or none can be recognised.
	Anonymous []string
	// CreatedAt is when a volume was made, as the engine prints it.
	CreatedAt string
}

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
	// RestartCount is set to 0 by a start or restart that a client asks for.
	RestartCount int
	State        struct {
		Status          string
		Running, Paused bool
		Pid             int
		StartedAt       time.Time
	}
	Config struct {
		Image      string
		Labels     map[string]string
		StopSignal string
	}
	HostConfig struct {
		AutoRemove  bool
		VolumesFrom []string
		Binds       []string
		Mounts      []struct{ Source string }
	}
	Mounts []struct{ Type, Name string }
}

// anonymous returns the container's volumes that its create request did not name. (Podman lists all volumes as if the
// request had named them. Only podman itself knows which are anonymous.)
func (x inspected) anonymous() (names []string) {
	if len(x.HostConfig.VolumesFrom) > 0 {
		return nil // they may be another container's
	}
	for _, m := range x.Mounts {
		named := m.Type != "volume" || m.Name == ""
		for _, bind := range x.HostConfig.Binds {
			named = named || strings.HasPrefix(bind, m.Name+":")
		}
		for _, given := range x.HostConfig.Mounts {
			named = named || given.Source == m.Name
		}
		if !named {
			names = append(names, m.Name)
		}
	}
	return names
}

// sharesVolumes reports whether removing the container with its anonymous volumes may remove another container's.
// Docker spares volumes that the container was given by name, podman does not.
func (x inspected) sharesVolumes() bool {
	label := x.Config.Labels[LabelVolumes]
	return len(x.HostConfig.VolumesFrom) > 0 && label != OwnVolumes || label == OthersVolumes && x.anonymous() == nil
}

func (x inspected) info() Info {
	return Info{
		Kind: Container, ID: x.ID, Name: strings.TrimPrefix(x.Name, "/"), Image: x.Config.Image, ImageID: x.Image,
		State: x.State.Status, Labels: x.Config.Labels, Created: x.Created,
		Running: x.State.Running || x.State.Paused, Paused: x.State.Paused, Initialized: x.State.Status == "created" && x.State.Pid != 0,
		StartedAt: x.State.StartedAt, Restarts: x.RestartCount, StopSignal: x.Config.StopSignal, AutoRemove: x.HostConfig.AutoRemove,
		SharesVolumes: x.sharesVolumes(),
		Anonymous:     x.anonymous(),
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
