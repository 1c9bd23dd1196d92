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
)

// Object is what an engine lists of a container, pod or network.
type Object struct {
	Kind    Kind
	ID      string
	Name    string // without the leading '/'
	Image   string // as the create request named it
	State   string // created, running, paused, restarting, removing, exited, dead; podman has others
	Labels  map[string]string
	Created time.Time // by the engine's clock; of a container cut to seconds
	// Infra is the container that podman makes with a pod, and Members are all that are in it.
	Infra   string
	Members []string
}

// IsKept reports whether its client wants the object to outlive the session.
func (o *Object) IsKept() bool { return o.Labels[labelKeep] == "1" }

// Running is true while a container is paused or restarted as well.
func (o *Object) Running() bool {
	switch o.State {
	case "running", "paused", "restarting", "degraded":
		return true
	}
	return false
}

// listedContainer is an entry of /containers/json.
type listedContainer struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	Created int64 // seconds
	State   string
	Labels  map[string]string
}

func (x listedContainer) object(kind Kind) Object {
	return Object{Kind: kind, ID: x.ID, Name: mainName(x.Names), Image: x.Image, State: x.State, Labels: x.Labels, Created: time.Unix(x.Created, 0)}
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

// listedOther is an entry of /networks or /libpod/pods/json.
type listedOther struct {
	ID         string `json:"Id"`
	Name       string
	Status     string // of a pod
	Created    time.Time
	Labels     map[string]string
	InfraID    string          `json:"InfraId"`
	Containers json.RawMessage // of a pod a list, of a network none here
}

func (x listedOther) object(kind Kind) Object {
	o := Object{Kind: kind, ID: x.ID, Name: x.Name, State: strings.ToLower(x.Status), Labels: x.Labels, Created: x.Created, Infra: x.InfraID}
	var members []identified
	if kind == Pod && json.Unmarshal(x.Containers, &members) == nil {
		o.Members = idsIn(members)
	}
	return o
}

// identified is what is read of an object that needs no more than its id.
type identified struct {
	ID string `json:"Id"`
}

func idsIn(all []identified) (ids []string) {
	for _, o := range all {
		ids = append(ids, o.ID)
	}
	return ids
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
