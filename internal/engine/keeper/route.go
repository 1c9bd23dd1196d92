package keeper

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"mcp-tether/internal/engine"
)

// route is what a request does, as far as the proxy has to know.
type route struct {
	creates engine.Kind // of object; "" for all that is passed on
	libpod  bool        // podman's own API
	name    string      // ?name= of what is created
}

// routeOf returns the route of a request.
//
// It must recognise every create that the engine's router would. It does no harm to recognise more, since the engine
// decides. Docker's router matches the decoded path and podman's the path as it was sent, and both redirect to a clean
// path. So this matches the decoded and cleaned path. (daemon/server/server.go in moby/moby, pkg/api/server in
// containers/podman, both on gorilla/mux.)
func routeOf(r engine.Request) (to route, err error) {
	if r.Method != "POST" {
		return route{}, nil
	}
	u, err := url.ParseRequestURI(r.Target)
	if err != nil {
		return route{}, fmt.Errorf("%w: %w", engine.ErrMalformedHead, err)
	}
	segments, libpod := segmentsOf(u.Path)
	to.libpod = libpod
	if len(segments) == 2 && segments[1] == "create" {
		to.creates, to.name = kindOf(segments[0], libpod), u.Query().Get("name")
	}
	return to, nil
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

// kindOf returns the kind of object that a segment of a path stands for; "" for what gets no labels.
func kindOf(segment string, libpod bool) engine.Kind {
	switch segment {
	case "containers":
		return engine.Container
	case "networks":
		return engine.Network
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
