package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// The ways in which a server comes to be in a container, each with a real client of the engine.

// order is what a launcher is to start.
type order struct {
	e     *engine
	dir   string // the session's
	image string
	mark  string
	words []string // of fixture boxed
	with  []string // further flags of docker run
}

// flags of docker run that every container has.
func (o order) flags() []string {
	return append([]string{"--network", "none", "--label", o.label()}, o.with...)
}

func (o order) label() string { return markLabel + "=" + o.mark }

func (o order) boxed() []string { return append([]string{"boxed"}, o.words...) }

// dockerRun is the command line of docker run with these flags.
func (o order) dockerRun(t *testing.T, how ...string) []string {
	t.Helper()
	argv := append([]string{lookPath(t, "docker"), "run"}, how...)
	argv = append(append(argv, o.flags()...), o.image)
	return append(argv, o.boxed()...)
}

// launcher makes the command line of a server in a container. Its stdout says ready once that runs.
type launcher struct {
	name string
	argv func(t *testing.T, o order) []string
}

var launchers = []launcher{
	{"i", func(t *testing.T, o order) []string { return o.dockerRun(t, "-i", "--rm") }},
	{"it", func(t *testing.T, o order) []string {
		return append([]string{fixture, "pty", "--"}, o.dockerRun(t, "-it", "--rm")...)
	}},
	{"d", runDetached},
	{"init", func(t *testing.T, o order) []string { return o.dockerRun(t, "-i", "--rm", "--init") }},
	{"exec", executed},
	{"npm", throughNPM},
	{"compose-run", composeRun},
	{"compose-up", composeUp},
}

func launch(name string) launcher {
	for _, l := range launchers {
		if l.name == name {
			return l
		}
	}
	panic("no launcher " + name)
}

// before runs a command line and then executes another, which keeps the session's streams.
func before(first, then []string) []string {
	return []string{"/bin/sh", "-c", quote(first) + " >/dev/null </dev/null && exec " + quote(then)}
}

func quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// runDetached leaves a container behind on purpose and serves on the host.
func runDetached(t *testing.T, o order) []string {
	return before(o.dockerRun(t, "-d", "-i"), node(o.dir, "serve,ignore-eof"))
}

// executed serves by docker exec in a container of its own, whose first process does nothing.
func executed(t *testing.T, o order) []string {
	first := o
	first.words = []string{"ignore-eof"}
	first.with = append(first.with, "--name", o.mark)
	then := append([]string{lookPath(t, "docker"), "exec", "-i", o.mark, "/fixture"}, o.boxed()...)
	return before(first.dockerRun(t, "-d", "-i"), then)
}

// throughNPM is what a user writes into a gateway's configuration: npm exec, a shell below it, the client below that.
func throughNPM(t *testing.T, o order) []string {
	return []string{lookPath(t, "npm"), "exec", "--offline", "-c", quote(o.dockerRun(t, "-i", "--rm"))}
}

// compose writes a project with as many services as asked for, which share a network.
func compose(t *testing.T, o order, services int, network string) []string {
	t.Helper()
	command, err := json.Marshal(o.boxed())
	ok(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "version: '2.4'\nservices:\n")
	for i := range services {
		fmt.Fprintf(&b, "  s%d:\n    image: %s\n    command: %s\n    stdin_open: true\n    labels: {%s: %s}\n%s",
			i, o.image, command, markLabel, o.mark, network)
	}
	if network == "" {
		fmt.Fprintf(&b, "networks: {default: {internal: true, labels: {%s: %s}}}\n", markLabel, o.mark)
	}
	file := filepath.Join(o.dir, "compose.yaml")
	ok(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return []string{lookPath(t, "docker-compose"), "-f", file, "-p", o.mark}
}

func composeRun(t *testing.T, o order) []string {
	t.Helper()
	return append(compose(t, o, 1, "    network_mode: none\n"), "run", "-T", "--rm", "s0")
}

// composeUp has two containers on a network of the project's own.
func composeUp(t *testing.T, o order) []string {
	t.Helper()
	return before(append(compose(t, o, 2, ""), "up", "-d"), node(o.dir, "serve,ignore-eof"))
}

func lookPath(t *testing.T, command string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	testkit.Lacks(t, testkit.Tools, err != nil, command)
	return path
}
