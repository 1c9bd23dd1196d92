package main

import (
	"fmt"
	"io"
	"syscall"
	"time"
)

// A story is a case: a cast, and what happens to it.
type story struct {
	name, title string
	// What the server starts, and how it behaves: words of playServer.
	cast string
	// A shell is between wrapper and server.
	launched bool
	// The server is in a container.
	contained bool
	// The call is sent and stdin closed before the server is there, as `echo request | server` does.
	oneShot bool
	act     func(s *stage) error
}

func allCases() []story {
	return []story{
		{name: "gateway-killed", title: "gateway killed", cast: "worker", act: killGateway},
		{name: "launcher-gone", title: "launcher (`sh -c`) killed", cast: "worker", launched: true, act: killLauncher},
		{name: "detached", title: "gateway killed, helper with setsid and double fork", cast: "helper", act: killGateway},
		{name: "no-environment", title: "gateway killed, orphan with a cleared environment", cast: "cleared", act: killGateway},
		{name: "deaf-helper", title: "gateway killed, helper that ignores SIGTERM", cast: "deaf", act: killGateway},
		{name: "wrapper-killed", title: "wrapper killed", cast: "worker", act: killWrapper},
		{name: "wrapper-stopped", title: "wrapper stopped, then gateway killed", cast: "worker", act: stopWrapper},
		{name: "stdin-closed", title: "stdin closed, server that ignores it", cast: "hangs", act: func(s *stage) error { return s.requests.Close() }},
		{name: "one-shot", title: "answer after stdin was closed", cast: "worker", oneShot: true, act: (*stage).awaitCall},
		{name: "term-in-flight", title: "answer after SIGTERM to the wrapper", cast: "worker", act: termInFlight},
		{name: "container", title: "gateway killed, server in a container", cast: "hangs", contained: true, act: killGateway},
	}
}

func killGateway(s *stage) error { return send(s.gateway, syscall.SIGKILL) }
func killWrapper(s *stage) error { return send(s.wrapper, syscall.SIGKILL) }

func stopWrapper(s *stage) error {
	if err := send(s.wrapper, syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.awaitState(s.wrapper, 'T'); err != nil {
		return err
	}
	return killGateway(s)
}

func killLauncher(s *stage) error {
	launcher, err := s.launcher()
	if err != nil {
		return err
	}
	return send(launcher, syscall.SIGKILL)
}

// termInFlight signals once the server has a call: it answers the ping behind it.
func termInFlight(s *stage) error {
	if _, err := io.WriteString(s.requests, call+"\n"+ping(pingID+1)+"\n"); err != nil {
		return fmt.Errorf("send a call: %w", err)
	}
	if err := s.awaitAnswer(pingID+1, startup); err != nil {
		return err
	}
	if err := send(s.wrapper, syscall.SIGTERM); err != nil {
		return err
	}
	return s.awaitCall()
}

func send(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("send %v to %d: %w", sig, pid, err)
	}
	return nil
}

// Times of the stories.
const (
	// startup is for a server to start, however busy the machine is.
	startup = 30 * time.Second
	// patience is how long a wrapper may take to clear up: mcp-tether waits 5 s for an answer and 1.5 s for SIGTERM.
	patience = 12 * time.Second
	// thinking is how long the server works on the call once it is told to end.
	thinking = 300 * time.Millisecond
	// lifetime bounds all processes of the cast, even if the director is killed.
	lifetime = 3 * time.Minute
)
