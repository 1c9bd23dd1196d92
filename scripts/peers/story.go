package main

import (
	"syscall"
	"time"

	"mcp-tether/e2e/stage"
)

// A story is a case: a cast, and what happens to it.
type story struct {
	name, title string
	// How the server behaves, and what it starts: traits of the fixture (e2e/fixture/main.go).
	server, helper string
	// A shell is between wrapper and server.
	launched bool
	// The server is in a container.
	contained bool
	// The call is sent and stdin closed before the server is there, as `echo request | server` does.
	oneShot bool
	// The gateway lives on and waits, so mcp-tether waits too: 12 s for the server to end by itself, 10 s after SIGTERM.
	unhurried bool
	// act ends something. Its error is that of an answer that was due.
	act func(s *scene) error
}

func allCases() []story {
	const (
		polite  = "late"
		hangs   = "ignore-eof,ignore-term"
		worker  = "plain,comm=worker"
		helper  = "daemon,comm=helper"
		cleared = "orphan,clearenv,chdir,comm=cleared"
		deaf    = "ignore-term,comm=deaf"
	)
	return []story{
		{name: "gateway-killed", title: "gateway killed", server: polite, helper: worker, act: killGateway},
		{name: "launcher-gone", title: "launcher (`sh -c`) killed", server: polite, helper: worker, launched: true, act: killLauncher},
		{name: "detached", title: "gateway killed, helper with setsid and double fork", server: polite, helper: helper, act: killGateway},
		{name: "no-environment", title: "gateway killed, orphan with a cleared environment", server: polite, helper: cleared, act: killGateway},
		{name: "deaf-helper", title: "gateway killed, helper that ignores SIGTERM", server: polite, helper: deaf, act: killGateway},
		{name: "wrapper-killed", title: "wrapper killed", server: polite, helper: worker, act: killWrapper},
		{name: "wrapper-stopped", title: "wrapper stopped, then gateway killed", server: polite, helper: worker, act: stopWrapper},
		{name: "stdin-closed", title: "stdin closed, server that ignores it", server: hangs, unhurried: true, act: closeInput},
		{name: "one-shot", title: "answer after stdin was closed", server: polite, helper: worker, oneShot: true, act: awaitCall},
		{name: "term-in-flight", title: "answer after SIGTERM to the wrapper", server: polite, helper: worker, act: termInFlight},
		{name: "container", title: "gateway killed, server in a container", server: hangs, contained: true, act: killGateway},
	}
}

func killGateway(s *scene) error { s.gateway.Kill(); return nil }
func killWrapper(s *scene) error { s.send(s.wrapper, syscall.SIGKILL); return nil }
func closeInput(s *scene) error  { s.closeInput(); return nil }
func awaitCall(s *scene) error   { return s.await(callID, patience) }

func stopWrapper(s *scene) error {
	s.send(s.wrapper, syscall.SIGSTOP)
	stage.Until(s.gateway.T, "the wrapper is stopped", func() bool { return stage.Describe(s.wrapper).State == "T" })
	return killGateway(s)
}

// killLauncher kills the shell that started the server; bare it is the gateway's child.
func killLauncher(s *scene) error {
	for _, p := range stage.Below(s.gateway.PID) {
		if p.Comm == "sh" {
			s.send(p.PID, syscall.SIGKILL)
			return nil
		}
	}
	s.gateway.T.Fatalf("the launcher is not there")
	return nil
}

// termInFlight signals once the server has a call: it answers the ping behind it.
func termInFlight(s *scene) error {
	s.say(call, ping(pingID+1))
	s.must(s.await(pingID+1, startup))
	s.send(s.wrapper, syscall.SIGTERM)
	return awaitCall(s)
}

const (
	// startup is for a server to start, however busy the machine is.
	startup = 30 * time.Second
	// patience is how long a wrapper may take to clear up, and twice that where nobody is in a hurry. With the gateway gone
	// mcp-tether waits 4 s after SIGTERM.
	patience = 12 * time.Second
)
