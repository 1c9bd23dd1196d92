//go:build amd64

package main

// mode is a way to run a session.
type mode struct {
	flags []string
	env   []string
	// deaf: the server ignores SIGTERM and the end of its input.
	deaf bool
	// sleeps: the server is put to sleep and woken once before the session ends.
	sleeps bool
	// shares: the server is a shared one.
	shares bool
	// engine: a container engine is in sight, and the server creates a container.
	engine bool
	// bare: without mcp-tether. The session must leak, or the campaign could not see a leak.
	bare bool
	// unlogged: the log file's directory is removed when the session is up.
	unlogged bool
}

const bareMode = "bare"

// modes gives the modes by name.
func modes() map[string]mode {
	return map[string]mode{
		"leaf":      {},
		"noleaf":    {flags: []string{"--cgroup=off"}},
		"deaf":      {deaf: true},
		"hibernate": {flags: []string{"--hibernate=60ms"}, sleeps: true},
		"share":     {flags: []string{"--share", "--share-linger=0s", "--log-file=" + logFile}, shares: true},
		"engine":    {env: []string{"DOCKER_HOST=unix://" + engineSocket}, engine: true},
		"logfile":   {flags: []string{"--log-level=debug", "--log-file=" + logFile}, unlogged: true},
		bareMode:    {bare: true},
	}
}

// commonFlags are those of every session. The graces are short, because each case waits for them.
func commonFlags() []string {
	return []string{
		"--term-grace=60ms", "--eof-grace=60ms", "--log-level=info", "--log-format=json",
	}
}
