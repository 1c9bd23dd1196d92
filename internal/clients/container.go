package clients

import (
	"path"
	"slices"
)

// RunsContainer reports whether a command line runs a container as a client of an engine. The container is no child of it.
func RunsContainer(args []string) bool {
	if len(args) == 0 {
		return false
	}
	base := path.Base(args[0])
	return (base == "docker" || base == "podman") && slices.Contains(args[1:], "run")
}
