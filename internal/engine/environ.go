package engine

import (
	"net/url"
	"strings"
)

// Variables says how env is to be changed for a process that is to reach the engine through a socket of ours: which variables
// go, by how they begin, and which come. DOCKER_HOST names the socket.
// Variables that would lead the docker command elsewhere, or make it speak TLS, are removed. A CONTAINER_HOST that names
// the same engine is changed too. One that names another engine stays, with the variables that belong to it. Relative
// addresses are taken from this process's working directory.
//
// From DOCKER_HOST, Testcontainers derives the host of containers' ports, and the socket that it mounts into its own
// container. For an engine elsewhere both would be wrong, so Variables sets them, unless env does.
func (e Endpoint) Variables(env []string, socket string) (drop, add []string) {
	drop = []string{"DOCKER_HOST=", "DOCKER_CONTEXT=", "DOCKER_TLS=", "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH="}
	add = []string{"DOCKER_HOST=unix://" + socket}
	if e.hasPodman(env) {
		drop = append(drop, "CONTAINER_HOST=", "CONTAINER_CONNECTION=", "CONTAINER_SSHKEY=")
		add = append(add, "CONTAINER_HOST=unix://"+socket)
	}
	if host := e.host(); host != "" {
		add = appendMissing(add, env, "TESTCONTAINERS_HOST_OVERRIDE", host)
		add = appendMissing(add, env, "TESTCONTAINERS_DOCKER_SOCKET_OVERRIDE", dockerSocket)
	}
	return drop, add
}

// host is the name or address of the machine on which the engine is; "" for an engine with a socket here.
func (e Endpoint) host() string {
	if e.Socket != "" {
		return ""
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// appendMissing adds a variable that env does not have.
func appendMissing(to, env []string, name, value string) []string {
	for _, assignment := range env {
		if strings.HasPrefix(assignment, name+"=") {
			return to
		}
	}
	return append(to, name+"="+value)
}

// hasPodman reports whether CONTAINER_HOST in env names this engine.
func (e Endpoint) hasPodman(env []string) bool {
	for _, assignment := range env {
		host, ok := strings.CutPrefix(assignment, "CONTAINER_HOST=")
		if !ok || host == "" {
			continue
		}
		other, err := EndpointAt(host)
		return err == nil && other.URL == e.URL
	}
	return false
}
