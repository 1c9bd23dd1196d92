package container

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// act is what a request does to the engine, as far as it matters here.
type act int

const (
	actOther  act = iota
	actCreate     // an object; labelled, its id noted
	actPlay       // podman's pods from a manifest
	actStart      // a container, perhaps one that was there before
	actRemove     // an object, perhaps one of ours
	actAttach     // the answer may turn the connection into a stream
	actExec       // so may this one's
)

// route is what a request is about.
type route struct {
	act    act
	kind   Kind
	libpod bool   // podman's own API
	ref    string // what the request calls the object: an id, the beginning of one, or a name
	name   string // ?name=
	again  bool   // a start that ends a running container first
}

// routeOf tells what a request is about.
//
// It must see every request that the engine's router takes for one of these; to take others for them does no harm, for
// the engine has the last word. Docker's router matches the decoded path and podman's the path as it was sent, and both
// redirect to a clean path, so this goes by the decoded and cleaned one. (daemon/server/server.go in moby/moby,
// pkg/api/server in containers/podman, both on gorilla/mux.)
func routeOf(r request) (route, error) {
	if r.method != "POST" && r.method != "DELETE" {
		return route{}, nil
	}
	u, err := url.ParseRequestURI(r.target)
	if err != nil {
		return route{}, fmt.Errorf("%w: %w", errMalformedHead, err)
	}
	segments, libpod := segmentsOf(u.Path)
	if len(segments) < 2 {
		return route{}, nil
	}
	to := matchPost(segments, libpod)
	if r.method == "DELETE" {
		to = route{act: actRemove, kind: kindOf(segments[0], libpod), ref: strings.Join(segments[1:], "/")}
	}
	to.libpod = libpod
	if to.act == actCreate {
		to.name = u.Query().Get("name")
	}
	return to, nil
}

// segmentsOf splits a path, without its version and without libpod.
func segmentsOf(decoded string) (segments []string, libpod bool) {
	segments = strings.Split(strings.Trim(path.Clean("/"+decoded), "/"), "/")
	if isVersion(segments[0]) {
		segments = segments[1:]
	}
	if len(segments) > 0 && segments[0] == "libpod" {
		return segments[1:], true
	}
	return segments, false
}

// isVersion tells whether a path's first segment is the API's version: docker has v1.41, podman also v4.3.1-dev.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:2], "0123456789.") == ""
}

// matchPost tells what a POST does. There are at least two segments.
func matchPost(segments []string, libpod bool) route {
	first, last := segments[0], segments[len(segments)-1]
	middle := strings.Join(segments[1:len(segments)-1], "/")
	switch {
	case last == "create" && middle == "" && kindOf(first, libpod) != "":
		return route{act: actCreate, kind: kindOf(first, libpod)}
	case libpod && middle == "" && (first == "play" && last == "kube" || first == "kube" && last == "play"):
		return route{act: actPlay, kind: Pod}
	case first == "containers" && middle != "" && (last == "start" || last == "restart"):
		return route{act: actStart, kind: Container, ref: middle, again: last == "restart"}
	case first == "containers" && middle != "" && last == "attach":
		return route{act: actAttach, kind: Container, ref: middle}
	case first == "exec" && middle != "" && last == "start":
		return route{act: actExec}
	}
	return route{}
}

// kindOf is the kind that a path's segment names; "" for none of ours.
func kindOf(segment string, libpod bool) Kind {
	switch segment {
	case "containers":
		return Container
	case "networks":
		return Network
	case "volumes":
		return Volume
	case "pods":
		if libpod {
			return Pod
		}
	}
	return ""
}

// labelsKey is what the API calls the labels in the body of a create.
func (to route) labelsKey() string {
	if to.libpod {
		return "labels"
	}
	return "Labels"
}
