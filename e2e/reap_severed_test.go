package e2e

import (
	"fmt"
	"testing"
)

// Servers that were never wrapped. The other end of its standard input proves that no gateway uses such a server.

// forBoth runs a test over a pipe as root, and over a socketpair as another user.
func forBoth(t *testing.T, test func(t *testing.T, stdio string, user int)) {
	t.Helper()
	if !onOwnHost(t) {
		return
	}
	for stdio, user := range map[string]int{"pipe": 0, "socketpair": nobody} {
		t.Run(fmt.Sprintf("%s/uid=%d", stdio, user), func(t *testing.T) { test(t, stdio, user) })
	}
}

// bareServer is a server that no wrapper looks after, with children that escaped it, under a gateway of the user.
func bareServer(t *testing.T, stdio string, user int) *session {
	t.Helper()
	s := startGatewayAs(t, user).tree(setup{Bare: true, Stdio: stdio}, "serve,ignore-eof", "setsid/plain", "plain")
	s.WaitReady()
	outgrow(t)
	return s
}

// match makes a sweep look at the session's server.
func (s *session) match() string { return "--match=fixture node " + s.Dir + " - " }

// as is a caller with the user of the session.
func (s *session) as() caller { return caller{uid: s.gw.UID} }
