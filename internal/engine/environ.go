package engine

import (
	"net/url"
	"strings"
)

// Environ returns env for a process that is to reach the engine through a socket of ours. DOCKER_HOST names the socket.
// Variables that would lead the docker command elsewhere, or make it speak TLS, are removed. A CONTAINER_HOST that names
// the same engine is changed too. One that names another engine stays, with the variables that belong to it. Relative
// addresses are taken from this process's working directory.
//
// From DOCKER_HOST, Testcontainers derives the host of containers' ports, and the socket that it mounts into its own
// container. For an engine elsewhere both would be wrong, so Environ sets them, unless env does.
func (e Endpoint) Environ(env []string, socket string) []string {
	removed := map[string]bool{
		"DOCKER_HOST": true, "DOCKER_CONTEXT": true,
		"DOCKER_TLS": true, "DOCKER_TLS_VERIFY": true, "DOCKER_CERT_PATH": true,
	}
	podman := e.hasPodman(env)
	if podman {
		removed["CONTAINER_HOST"], removed["CONTAINER_CONNECTION"], removed["CONTAINER_SSHKEY"] = true, true, true
	}
	out := make([]string, 0, len(env)+2)
	for _, assignment := range env {
		if name, _, _ := strings.Cut(assignment, "="); !removed[name] {
			out = append(out, assignment)
		}
	}
	out = append(out, "DOCKER_HOST=unix://"+socket)
	if podman {
		out = append(out, "CONTAINER_HOST=unix://"+socket)
	}
	if host := e.host(); host != "" {
		out = appendMissing(out, "TESTCONTAINERS_HOST_OVERRIDE", host)
		out = appendMissing(out, "TESTCONTAINERS_DOCKER_SOCKET_OVERRIDE", dockerSocket)
	}
	return out
}

// host is the name or address of the machine on which the engine is; "" for an engine with a socket here.
func (e Endpoint) host() string {
	if e.Socket != "" {
		return ""
	}
	address := e.URL
	if !strings.Contains(address, "://") {
		address = "tcp://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// appendMissing adds a variable that env does not have.
func appendMissing(env []string, name, value string) []string {
	for _, assignment := range env {
		if strings.HasPrefix(assignment, name+"=") {
			return env
		}
	}
	return append(env, name+"="+value)
}

// hasPodman reports whether CONTAINER_HOST in env names this engine.
func (e Endpoint) hasPodman(env []string) bool {
	for _, assignment := range env {
		host, ok := strings.CutPrefix(assignment, "CONTAINER_HOST=")
		if !ok || host == "" {
			continue
		}
		other, err := EndpointAt(host, "", false)
		return err == nil && other.URL == e.URL
	}
	return false
}
