package proxy

import "strings"

// removingContainers returns a build's target, changed so that the engine removes the build's containers however it
// ends. Docker's classic builder makes a container for each step, without our labels. It leaves that of a step that
// fails. Podman leaves the working container of such a build. If a parameter occurs twice, docker takes its first value
// and podman its last. (getBuildOptions in daemon/server/router/build of moby/moby, decode in gorilla/schema.)
func removingContainers(target string) string {
	path, query, _ := strings.Cut(target, "?")
	if query == "" {
		return path + "?forcerm=1"
	}
	return path + "?forcerm=1&" + query + "&forcerm=1"
}
