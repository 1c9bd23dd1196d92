package keeper

import (
	"net/url"
	"path"
	"strings"

	"mcp-tether/internal/engine"
)

// route is what a request creates, and where.
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
// containers/podman, both on gorilla/mux.) A target that cannot be parsed they refuse.
func routeOf(r engine.Request) (to route) {
	u, err := url.ParseRequestURI(r.Target)
	if err != nil || r.Method != "POST" { //nolint:usestdlibvars // net/http would be linked
		return route{}
	}
	what := path.Clean("/" + u.Path)[1:]
	if first, rest, _ := strings.Cut(what, "/"); isVersion(first) {
		what = rest
	}
	what, to.libpod = strings.CutPrefix(what, "libpod/")
	to.name = u.Query().Get("name")
	switch what {
	case "containers/create":
		to.creates = engine.Container
	case "networks/create":
		to.creates = engine.Network
	case "pods/create":
		if to.libpod {
			to.creates = engine.Pod
		}
	}
	return to
}

// isVersion reports whether the first segment of a path is a version of the API: v1.41, or for podman also v4.3.1-dev.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:2], "0123456789.") == ""
}

// labelsKey returns the name of the labels in the body of a create.
func (to route) labelsKey() string {
	if to.libpod {
		return "labels"
	}
	return "Labels"
}
