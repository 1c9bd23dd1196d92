package engine

import "strings"

// Variables says how env is to be changed for a process that is to reach the engine through a socket of ours: which variables
// go, by how they begin, and which come. DOCKER_HOST names the socket.
// Variables that would lead the docker command elsewhere, or make it speak TLS, are removed. A CONTAINER_HOST that names
// the same engine is changed too. One that names another engine stays, with the variables that belong to it. Relative
// addresses are taken from this process's working directory.
func (e Endpoint) Variables(env []string, socket string) (drop, add []string) {
	drop = []string{"DOCKER_HOST=", "DOCKER_CONTEXT=", "DOCKER_TLS=", "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH="}
	add = []string{"DOCKER_HOST=unix://" + socket}
	if e.hasPodman(env) {
		drop = append(drop, "CONTAINER_HOST=", "CONTAINER_CONNECTION=", "CONTAINER_SSHKEY=")
		add = append(add, "CONTAINER_HOST=unix://"+socket)
	}
	return drop, add
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
