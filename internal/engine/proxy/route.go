package proxy

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// action is what a request does, as far as the proxy has to know.
type action int

const (
	actionOther   action = iota
	actionCreate         // creates an object, which is to be labelled and noted
	actionRemove         // removes an object, perhaps one of the session's
	actionStream         // may turn the connection into a stream
	actionUpgrade        // may switch to another protocol
	actionBuild          // builds an image, perhaps in containers
)

// route is what a request does, and to which object.
type route struct {
	action action
	kind   engine.Kind
	libpod bool   // podman's own API
	ref    string // the object to remove: an id, the beginning of one, or a name
	name   string // ?name=
}

// routeOf returns the route of a request.
//
// It must recognise every request that the engine's router would. It does no harm to recognise more, since the engine
// decides. Docker's router matches the decoded path and podman's the path as it was sent, and both redirect to a clean
// path. So this matches the decoded and cleaned path. (daemon/server/server.go in moby/moby, pkg/api/server in
// containers/podman, both on gorilla/mux.)
func routeOf(r http1.Request) (route, error) {
	switch r.Method {
	case http1.MethodGet, http1.MethodPost, http1.MethodDelete:
	default:
		return route{}, nil
	}
	u, err := url.ParseRequestURI(r.Target)
	if err != nil {
		return route{}, fmt.Errorf("%w: %w", http1.ErrMalformedHead, err)
	}
	segments, libpod := segmentsOf(u.Path)
	to := route{}
	switch {
	case upgrades(r.Method, segments):
		to.action = actionUpgrade
	case r.Method == http1.MethodPost && builds(segments, libpod):
		to.action = actionBuild
	case len(segments) < 2:
	case r.Method == http1.MethodPost:
		to = matchPost(segments, libpod)
		to.libpod = libpod
	case r.Method == http1.MethodDelete:
		to = route{action: actionRemove, kind: kindOf(segments[0], libpod), libpod: libpod, ref: strings.Join(segments[1:], "/")}
	}
	if to.action == actionCreate {
		to.name = u.Query().Get("name")
	}
	return to, nil
}

// upgrades reports whether a request may switch to a protocol in which nothing is created that has labels. That is
// BuildKit's, or a WebSocket to a container's streams.
func upgrades(method string, segments []string) bool {
	first, last := segments[0], segments[len(segments)-1]
	if method == http1.MethodPost {
		return len(segments) == 1 && (first == "session" || first == "grpc")
	}
	return method == http1.MethodGet && len(segments) > 3 && first == "containers" && last == "ws"
}

// builds reports whether a POST builds an image: in podman's own API also from a directory that podman sees (local/build).
func builds(segments []string, libpod bool) bool {
	return strings.Join(segments, "/") == "build" || libpod && strings.Join(segments, "/") == "local/build"
}

// segmentsOf splits a path into at least one segment, leaving out its version and libpod.
func segmentsOf(decoded string) (segments []string, libpod bool) {
	segments = strings.Split(strings.Trim(path.Clean("/"+decoded), "/"), "/")
	if isVersion(segments[0]) && len(segments) > 1 {
		segments = segments[1:]
	}
	if segments[0] == "libpod" && len(segments) > 1 {
		return segments[1:], true
	}
	return segments, false
}

// isVersion reports whether the first segment of a path is a version of the API: v1.41, or for podman also v4.3.1-dev.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:2], "0123456789.") == ""
}

// matchPost returns the route of a POST, whose path has at least two segments.
func matchPost(segments []string, libpod bool) route {
	first, last := segments[0], segments[len(segments)-1]
	middle := strings.Join(segments[1:len(segments)-1], "/")
	switch {
	case last == "create" && middle == "" && kindOf(first, libpod) != "":
		return route{action: actionCreate, kind: kindOf(first, libpod)}
	case middle != "" && (first == "containers" && last == "attach" || first == "exec" && last == "start"):
		return route{action: actionStream}
	}
	return route{}
}

// kindOf returns the kind of object that a segment of a path stands for; "" for all that the proxy passes on.
func kindOf(segment string, libpod bool) engine.Kind {
	switch segment {
	case "containers":
		return engine.Container
	case "networks":
		return engine.Network
	case "volumes":
		return engine.Volume
	case "pods":
		if libpod {
			return engine.Pod
		}
	}
	return ""
}

// labelsKey returns the name of the labels in the body of a create.
func (to route) labelsKey() string {
	if to.libpod {
		return "labels"
	}
	return "Labels"
}
