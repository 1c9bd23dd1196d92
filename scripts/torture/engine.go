//go:build amd64

package main

import (
	"net"
	"net/http"
	"time"

	"mcp-tether/internal/testkit"
)

func startEngine() (*testkit.Engine, error) {
	l, err := net.Listen("unix", engineSocket)
	if err != nil {
		return nil, err
	}
	e := &testkit.Engine{}
	s := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return e, nil
}

// containersLeft lists the session's containers that were not removed. A container without its label was made past the
// proxy. Where there can be no proxy, a warning says so.
func containersLeft(e *testkit.Engine) (out []string) {
	e.Lock()
	defer e.Unlock()
	for id, x := range e.Have {
		if x.Labels["mcp-tether.session"] != "" {
			out = append(out, "container "+id[len(id)-4:])
		}
	}
	return out
}
