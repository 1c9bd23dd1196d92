package reap

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"mcp-tether/engine"
)

// lookAlikes: containers without our label, of an image that a configured server is started from, that are more than
// the clients that run it. Which of them is nobody's cannot be known, so they are only reported.
func (x *index) lookAlikes(r Rules) []Finding {
	if r.Image == nil {
		return nil
	}
	var (
		out     []Finding
		clients map[string]*imageClients
	)
	for _, e := range x.h.Engines {
		// The clients of an engine elsewhere may be elsewhere, too.
		if e.Err != nil || e.Socket == "" {
			continue
		}
		if clients == nil {
			clients = x.imageClients()
		}
		out = append(out, x.lookAlikesIn(e, clients, r)...)
	}
	return out
}

// imageClients counts the clients that run one image.
type imageClients struct {
	// free are those outside of any session, tethered those within one.
	free, tethered int
}

func (x *index) imageClients() map[string]*imageClients {
	out := map[string]*imageClients{}
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		image, ok := clientImage(p.Args)
		if !ok || p.Dead() {
			continue
		}
		c := out[image]
		if c == nil {
			c = &imageClients{}
			out[image] = c
		}
		if x.tethered(p) {
			c.tethered++
		} else {
			c.free++
		}
	}
	return out
}

// crowd is what an engine has of one image.
type crowd struct {
	name     string
	plain    []engine.Info
	labelled int
}

func (x *index) lookAlikesIn(e *Engine, clients map[string]*imageClients, r Rules) []Finding {
	crowds := map[string]*crowd{}
	var order []string
	for _, i := range e.Have {
		if i.Kind != engine.Container || !i.Running || i.Image == "" {
			continue
		}
		image := canonicalImage(i.Image)
		c := crowds[image]
		if c == nil {
			name, ok := r.Image(x.h.UID, image)
			if !ok {
				continue
			}
			c = &crowd{name: name}
			crowds[image] = c
			order = append(order, image)
		}
		switch {
		case i.Labels[engine.LabelSession] != "":
			c.labelled++
		case !x.looked[i.ID] && i.Created.Before(x.h.Began.Add(-settleContainer)):
			c.plain = append(c.plain, i)
		}
	}
	var out []Finding
	for _, image := range order {
		if f, ok := x.lookAlike(e, image, crowds[image], clients[image]); ok {
			out = append(out, f)
		}
	}
	return out
}

// settleContainer is how old a container must be: a younger one may have a client that the look at the processes did not
// see. Engines cut the time to seconds in a list.
const settleContainer = time.Second

func (x *index) lookAlike(e *Engine, image string, c *crowd, clients *imageClients) (Finding, bool) {
	served := 0
	if clients != nil {
		// The clients within sessions run the labelled containers, as far as there are any.
		served = clients.free + max(0, clients.tethered-c.labelled)
	}
	if len(c.plain) <= served {
		return Finding{}, false
	}
	f := Finding{Class: Suspect, UID: x.h.UID, Count: len(c.plain) - served, Gateway: Gateway{State: Unknown.String()}}
	for _, i := range c.plain {
		x.suspect(&f, e, &i, "without our label")
	}
	f.Name = c.name
	f.Evidence = []string{fmt.Sprintf("%d running containers without our label of image %s, from which server %q is started, and %d clients that run it",
		len(c.plain), image, c.name, served)}
	f.Advice = "not proven: find out which of them nobody uses, and remove those by hand"
	return f, true
}

// clientImage is the image that a process runs as a client of an engine.
func clientImage(args []string) (string, bool) {
	if len(args) == 0 || !isEngineClient(args[0]) {
		return "", false
	}
	return runImage(args[1:])
}

// configuredImage is the image that a configured server is started from; "" when it is none.
func configuredImage(s Server) string {
	words := append([]string{s.Command}, s.Args...)
	if base := path.Base(s.Command); base == "sudo" || base == "doas" || isInterpreter(base) {
		words = strings.Fields(strings.Join(words, " "))
		words = words[max(0, slices.IndexFunc(words, isEngineClient)):]
	}
	image, _ := clientImage(words)
	return image
}

func isEngineClient(w string) bool {
	base := path.Base(w)
	return base == "docker" || base == "podman"
}

// isEngineFlag reports whether a flag of docker or podman before the command is followed by a value.
func isEngineFlag(flag string) bool {
	switch flag {
	case "-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey",
		"--connection", "--url", "--identity", "--root", "--runroot", "--runtime", "--storage-driver", "--storage-opt", "--cgroup-manager":
		return true
	}
	return false
}

// isRunSwitch reports whether a flag of "docker run" or "podman run" has no value; every other takes one.
func isRunSwitch(flag string) bool {
	switch flag {
	case "--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck",
		"--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--quiet", "--use-api-socket", "--help",
		"--replace", "--rmi", "--tls-verify", "--http-proxy", "--no-hosts", "--no-hostname", "--env-host", "--read-only-tmpfs",
		"--passwd", "--unsetenv-all", "--rootfs":
		return true
	}
	return false
}

// runLetters are the short flags without a value; they may stand together, the last with a value: -it, -itp 80:80.
const runLetters = "ditPq"

// runImage is the image in the words after the client's name: "[flags] [container] run [flags] IMAGE [...]".
func runImage(words []string) (string, bool) {
	words = afterFlags(words, isEngineFlag)
	if len(words) > 0 && words[0] == "container" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "run" {
		return "", false
	}
	words = afterFlags(words[1:], takesValue)
	if len(words) == 0 || words[0] == "" {
		return "", false
	}
	return canonicalImage(words[0]), true
}

// afterFlags drops the flags in front. The value of a flag is in the same word, after "=", or the next one.
func afterFlags(words []string, value func(flag string) bool) []string {
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		flag := words[0]
		words = words[1:]
		if flag == "--" {
			return words
		}
		if !strings.Contains(flag, "=") && value(flag) && len(words) > 0 {
			words = words[1:]
		}
	}
	return words
}

// takesValue reports whether the word after a flag of "run" is its value.
func takesValue(flag string) bool {
	if strings.HasPrefix(flag, "--") {
		return !isRunSwitch(flag)
	}
	letters := strings.TrimLeft(flag[1:], runLetters)
	return len(letters) == 1
}

// canonicalImage gives one name to what docker and podman take for the same image.
func canonicalImage(ref string) string {
	for _, prefix := range []string{"docker://", "docker.io/", "index.docker.io/", "localhost/", "library/"} {
		ref = strings.TrimPrefix(ref, prefix)
	}
	name, digest, byDigest := strings.Cut(ref, "@")
	if byDigest {
		return untagged(name) + "@" + digest
	}
	if untagged(ref) == ref {
		return ref + ":latest"
	}
	return ref
}

// untagged cuts the tag, not the port of a registry.
func untagged(ref string) string {
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		return ref[:i]
	}
	return ref
}
