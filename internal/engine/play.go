package engine

import (
	"slices"
	"strings"
)

// KubeNetwork is the network that podman makes for the pods of a manifest, unless it exists.
const KubeNetwork = "podman-default-kube-network"

// played reports whether podman made an object from a manifest that the session asked it to play, and whose outcome is
// unknown.
func (j *judge) played(x *Info) bool {
	return anyOf(j.Ledger.pending, func(o *Object) bool { return o.Names != nil && o.Plays(x) })
}

// Plays reports whether podman made an object because of a request to play a manifest. Such objects have no labels of
// ours. What identifies them is that their names are in the manifest, and that they were not there before.
func (o *Object) Plays(x *Info) bool {
	if x.Labels[LabelSession] != "" || x.Created.Before(o.At) || x.Created.After(o.At.Add(maxRequestDelay)) {
		return false
	}
	isPod := func(name string) bool { return x.Name == name || strings.HasPrefix(x.Name, name+"-pod") } // of a deployment
	return x.Kind == Network && x.Name == KubeNetwork || x.Kind == Pod && slices.ContainsFunc(o.Names, isPod)
}

// maxNames bounds the names of a manifest.
const maxNames = 1000

// ManifestNames returns the values of all members called name in a Kubernetes manifest, in any of the forms that YAML
// allows on one line. Too many do no harm: most are not names of pods anyway.
func ManifestNames(text string) []string {
	names := []string{}
	for len(names) < maxNames {
		_, rest, found := strings.Cut(text, "name")
		if !found {
			break
		}
		text = rest
		value, isMember := strings.CutPrefix(strings.TrimLeft(rest, "\"' \t"), ":")
		value = strings.TrimLeft(value, "\"' \t")
		end := strings.IndexFunc(value, func(r rune) bool { return !strings.ContainsRune(idBytes, r) })
		if end < 0 {
			end = len(value)
		}
		if isMember && end > 0 {
			names = append(names, value[:end])
		}
	}
	return names
}
