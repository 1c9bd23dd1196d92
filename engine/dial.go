package engine

import (
	"fmt"
	"net"
	"os"
	"time"
)

// Dial connects to the engine. A connection to a unix socket is made within timeout (0: no limit). For any other engine
// Dial runs the docker (or podman) command from env's PATH with dial-stdio, which knows TLS and ssh. The command gets
// env (nil: this process's). It has no terminal, and a terminal session of its own, so that no signal to our process
// group reaches it. It ends when the connection is closed. It is a child of this process, which has to reap it. So
// started, unless nil, is called with its pid.
//
// The connection has CloseWrite. If it leads through a command, only a read shows that the engine does not respond.
func (e Endpoint) Dial(timeout time.Duration, env []string, started func(pid int)) (net.Conn, error) {
	if e.Socket != "" {
		return dialSocket(e.Socket, timeout)
	}
	if env == nil {
		env = os.Environ()
	}
	args := e.dialStdio()
	conn, pid, err := startOverSocket(args, env, e.Adopts)
	if err != nil {
		return nil, fmt.Errorf("run %s for %s: %w", args[0], e.URL, err)
	}
	if started != nil {
		started(pid)
	}
	return conn, nil
}

// Helper returns the name of the command that Dial runs to reach the engine; "" for a socket.
func (e Endpoint) Helper() string {
	if e.Socket != "" {
		return ""
	}
	return e.dialStdio()[0]
}

// dialStdio returns the command that connects its stdin and stdout to the engine.
func (e Endpoint) dialStdio() []string {
	switch {
	case e.Context != "":
		return []string{"docker", "--context", e.Context, "system", "dial-stdio"}
	case e.Podman:
		return []string{"podman", "--url", e.URL, "system", "dial-stdio"}
	}
	return []string{"docker", "--host", e.URL, "system", "dial-stdio"}
}
