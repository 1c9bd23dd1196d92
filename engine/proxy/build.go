package proxy

import "strings"

// removingContainers returns the target of a build whose containers are removed however it ends. The classic builder of
// docker makes one for each step, without our labels. It leaves the one of a step that fails. The first value of a
// parameter counts. (getBuildOptions in daemon/server/router/build of moby/moby.)
func removingContainers(target string) string {
	path, query, _ := strings.Cut(target, "?")
	return strings.TrimSuffix(path+"?forcerm=1&"+query, "&")
}
