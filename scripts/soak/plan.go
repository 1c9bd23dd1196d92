//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// mode is a way to run a session.
type mode struct {
	name  string
	flags []string
	// restarts: a call after the server has crashed is answered.
	restarts bool
	// shared: the server is that of other lives as well.
	shared bool
	// spared: nothing is killed on purpose, so every call must be answered.
	spared bool
	// bare: without mcp-tether.
	bare bool
	// boxed: the server is in a container; boxes: it starts some.
	boxed, boxes bool
}

// modes lists the ways; one that stands there twice is chosen twice as often.
func modes(engine bool) []mode {
	linger := "--share-linger=2s"
	all := []mode{
		{name: "run"}, {name: "run"},
		{name: "run --cgroup=off", flags: []string{"--cgroup=off"}},
		{name: "--hibernate", flags: []string{"--hibernate=1s"}}, {name: "--hibernate", flags: []string{"--hibernate=1s"}},
		{name: "--on-crash=restart", flags: []string{"--on-crash=restart"}, restarts: true},
		{name: "--lazy", flags: []string{"--lazy", "--hibernate=1s", "--on-crash=restart"}, restarts: true},
		{name: "--share", flags: []string{"--share", "--share-scope=user", linger, "--share-ignore-env=SOAK_LIFE"}, shared: true}, // its host is killed
		{name: "--share, spared", flags: []string{"--share", "--share-scope=user", linger, "--share-ignore-env=SOAK_LIFE"}, shared: true, spared: true},
	}
	if engine {
		all = append(all, mode{name: "docker run -i", boxed: true}, mode{name: "containers", boxes: true})
	}
	return all
}

// Steps of a life.
const (
	stepCall   = "call"
	stepPause  = "pause"
	stepCrash  = "crash"  // a process of the server is killed
	stepKill   = "kill"   // one of mcp-tether's is killed
	stepFreeze = "freeze" // one of mcp-tether's is stopped for a while
	stepBoth   = "both"   // anchor and supervisor are killed
)

// Endings of a gateway.
const (
	endClose = "closes"         // as the SDK does it
	endExit  = "exits"          // without a word to its server
	endKill  = "is killed"      // by SIGKILL
	endGroup = "group killed"   // with every process of its group
	endLeave = "killed at once" // with all processes of mcp-tether that the life has
)

// step is one thing that happens in a life, and how long it takes.
type step struct {
	what string
	wait time.Duration
	// amid: while a call is on its way.
	amid bool
	pick uint64
}

// plan is a life before it is lived: the same for the same seed and number.
type plan struct {
	number int
	mode   mode
	server string
	keep   bool
	steps  []step
	ending string
	pick   uint64
}

// Servers that a life may have.
const (
	serverEverything = "everything"
	serverFiles      = "filesystem"
	serverOwn        = "own"
)

func makePlan(seed uint64, number int, engine bool) plan {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	all := modes(engine)
	p := plan{number: number, mode: all[r.IntN(len(all))], pick: r.Uint64()}
	p.server = []string{serverEverything, serverFiles, serverOwn, serverOwn}[r.IntN(4)]
	if p.mode.shared {
		p.server = serverEverything
	}
	if p.mode.boxed || p.mode.boxes {
		p.server = serverOwn
	}
	p.keep = p.server == serverOwn && !p.mode.boxed && !p.mode.boxes && r.IntN(4) == 0
	p.ending = []string{endClose, endClose, endExit, endKill, endKill, endGroup, endLeave}[r.IntN(7)]
	troubled := !p.mode.spared && r.IntN(3) > 0
	for range 3 + r.IntN(12) {
		p.steps = append(p.steps, makeStep(r, troubled))
	}
	return p
}

func makeStep(r *rand.Rand, troubled bool) step {
	s := step{what: stepCall, pick: r.Uint64(), amid: r.IntN(2) == 0}
	switch n := r.IntN(12); {
	case n < 3:
		s.what, s.wait = stepPause, time.Duration(r.IntN(3000))*time.Millisecond
	case n == 3 && troubled:
		s.what, s.wait = stepCrash, time.Duration(r.IntN(60))*time.Millisecond
	case n == 4 && troubled:
		s.what, s.wait = stepKill, time.Duration(r.IntN(60))*time.Millisecond
	case n == 5 && troubled:
		s.what, s.wait = stepFreeze, time.Duration(r.IntN(6000))*time.Millisecond
	case n == 6 && troubled && r.IntN(3) == 0:
		s.what = stepBoth
	}
	return s
}

// known is what the server for files is asked for.
const (
	knownFile = "/run/known/text"
	knownText = "what is known\n"
)

// npm is where the packages of the end-to-end tests are.
const npm = "e2e/npm/node_modules/@modelcontextprotocol/"

// Traits of what servers start (e2e/fixture/main.go).
const (
	traitsCleared = "clearenv"
	traitsKept    = "setsid,keep"
)

// longest is how many seconds a process of the fixture may live: nothing here ends by itself.
const longest = "1000000"

// node are the words of a server of the fixture, with four that try to stay.
func (s *soak) node(dir string) []string {
	return []string{"mcp", dir, "-", s.until, "plain", "plain", "daemon", traitsCleared, "ignore-term"}
}

// command is that of the life's server.
func (p plan) command(s *soak) []string {
	_ = os.MkdirAll(p.place(), 0o700)
	switch {
	case p.mode.boxed:
		return []string{"docker", "run", "-i", "--rm", "--net=none", "--label", p.label(), s.image, "/soak", "boxed", "mcp"}
	case p.mode.boxes && !p.mode.bare:
		return []string{s.cast, "mcp", p.place(), "-", s.until, "plain"}
	case p.mode.spared: // another command line, and so another host
		return []string{"node", npm + "server-everything/dist/index.js", "stdio"}
	case p.server == serverEverything:
		return []string{"node", npm + "server-everything/dist/index.js"}
	case p.server == serverFiles:
		return []string{"node", npm + "server-filesystem/dist/index.js", "/run/known"}
	}
	words := append([]string{s.cast}, s.node(p.place())...)
	if p.keep {
		words = append(words, traitsKept)
	}
	return words
}

// wrapped is that command below mcp-tether.
func (p plan) wrapped(s *soak) []string {
	if p.mode.bare {
		return p.command(s)
	}
	words := append([]string{s.bin, "run", "--log-level=debug", "--log-format=json", "--log-file=" + p.log()}, p.mode.flags...)
	return append(append(words, "--"), p.command(s)...)
}

func (p plan) label() string { return fmt.Sprint("soak.life=", p.number) }
func (p plan) place() string { return fmt.Sprint(lifeDir, p.number) }

func (p plan) log() string { return fmt.Sprintf("%s/%d", logDir, p.number) }

// call is the order for a client, and the answer that is right. A life with containers runs one at each call. Where the
// session lasts, the container ends by itself.
func (p plan) call(s *soak, n int) (order any, right string) {
	text := fmt.Sprint(p.number, ".", n)
	name, arguments, right := "echo", map[string]any{"message": text}, text
	switch {
	case p.mode.boxes:
		how := "--detach %s /soak boxed ignore-eof"
		if p.number >= firstSteady {
			how = "--rm %s /soak tool say a b 0"
		}
		right = fmt.Sprintf("docker run --net=none --label %s "+how, p.label(), s.image)
		name, arguments = "run", map[string]any{"text": right}
	case p.server == serverEverything:
		right = "Echo: " + text
	case p.server == serverFiles:
		name, arguments, right = "read_text_file", map[string]any{"path": knownFile}, knownText
	}
	return map[string]any{"call": map[string]any{"name": name, "arguments": arguments}}, right
}

func (p plan) String() string {
	var steps []string
	for _, s := range p.steps {
		steps = append(steps, s.what)
	}
	return fmt.Sprintf("life %d: %s, server %s, keeps %v, steps %s, its gateway %s", p.number, p.mode.name, p.server, p.keep, strings.Join(steps, " "), p.ending)
}
