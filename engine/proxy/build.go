package proxy

import "strings"

// removingContainers returns a build's target, changed so that the engine removes the build's containers however it
// ends. Docker's classic builder makes a container for each step, without our labels. It leaves that of a step that
// fails. If a parameter occurs twice, its first value counts. (getBuildOptions in daemon/server/router/build of
// moby/moby.)
func removingContainers(target string) string {
	path, query, _ := strings.Cut(target, "?")
	return strings.TrimSuffix(path+"?forcerm=1&"+query, "&")
}
