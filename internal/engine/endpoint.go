package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Endpoint is where an engine listens.
type Endpoint struct {
	URL string // in the form of DOCKER_HOST
	// Socket is the path of the engine's unix socket; "" for one that is dialled by plain TCP.
	Socket string
	// Named is true if the flag, the environment or a context names the engine; false for a default socket that exists.
	Named bool
	// From says what named the engine: "--engine", "DOCKER_HOST", "context NAME", "CONTAINER_HOST" or "default socket".
	From string
}

// The sockets that are tried when nothing is named.
const (
	dockerSocket = "/var/run/docker.sock"
	podmanSocket = "/run/podman/podman.sock"
	podmanInUser = "podman/podman.sock" // below XDG_RUNTIME_DIR
)

// EnvURL is the environment variable of the flag that names an engine.
const EnvURL = "MCP_TETHER_ENGINE"

var (
	// errEndpoint says that the address of an engine cannot be understood.
	errEndpoint = errors.New("not a container engine's address")
	// ErrElsewhere says that an engine is reached by a way that only its own command knows.
	ErrElsewhere = errors.New("only unix sockets and plain tcp to an IPv4 address or localhost are looked after")
)

// Resolve finds the engine as the docker command does, then as podman does. The order is the flag, DOCKER_HOST,
// DOCKER_CONTEXT, the current context of the docker configuration, docker's default socket; then CONTAINER_HOST,
// podman's default sockets. The flag may be a plain path too. A default socket counts if it is a socket that this
// process may write to. If there is none of these, ok is false. Resolve does not dial, and it reads docker's
// configuration files only.
//
// The error says that an address is given but cannot be used; it wraps errEndpoint or ErrElsewhere.
//
// The order is that of resolveContextName and getServerHost in github.com/docker/cli, cli/command/cli.go.
func Resolve(flag string, getenv func(string) string) (e Endpoint, ok bool, err error) {
	if strings.HasPrefix(flag, "/") {
		flag = "unix://" + flag
	}
	if flag != "" {
		return named(flag, "--engine", getenv)
	}
	if host := strings.TrimSpace(getenv("DOCKER_HOST")); host != "" {
		return named(host, "DOCKER_HOST", getenv)
	}
	if name := currentContext(getenv); name != "" && name != "default" {
		return inContext(name, getenv)
	}
	if usable(dockerSocket) {
		return atDefault(dockerSocket), true, nil
	}
	if host := getenv("CONTAINER_HOST"); host != "" {
		return named(host, "CONTAINER_HOST", getenv)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" && usable(filepath.Join(dir, podmanInUser)) {
		return atDefault(filepath.Join(dir, podmanInUser)), true, nil
	}
	if usable(podmanSocket) {
		return atDefault(podmanSocket), true, nil
	}
	return Endpoint{}, false, nil
}

// IsSocket reports whether a path leads to the engine's socket.
func (e Endpoint) IsSocket(path string) bool {
	there, err := os.Stat(path)
	if err != nil || !filepath.IsAbs(path) {
		return false // a volume, perhaps
	}
	socket, err := os.Stat(e.Socket)
	return err == nil && os.SameFile(there, socket)
}

// Lend lets the users that may open the engine's socket open a socket of ours, by giving it the same group and mode. A
// container that gets our socket in place of the engine's may run as another user. Our directory stays closed.
func (e Endpoint) Lend(socket string) error {
	theirs, err := os.Stat(e.Socket)
	if err != nil {
		return fmt.Errorf("group of the engine's socket: %w", err)
	}
	group, ok := theirs.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := os.Lchown(socket, -1, int(group.Gid)); err != nil {
		return err
	}
	return os.Chmod(socket, 0o600|theirs.Mode().Perm()&0o066)
}

// EndpointAt returns the endpoint for an address: unix://PATH or tcp://HOST:PORT; without a scheme it is tcp, as for the
// docker command. A path is taken from this process's working directory. The error wraps errEndpoint or ErrElsewhere.
func EndpointAt(url string) (Endpoint, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "tcp", url
	}
	e := Endpoint{URL: scheme + "://" + rest, Named: true}
	switch {
	case scheme == "unix" && rest != "":
		path, err := filepath.Abs(rest)
		if err != nil {
			return Endpoint{}, fmt.Errorf("path of the engine's socket: %w", err)
		}
		e.URL, e.Socket = "unix://"+path, path
	case rest == "", scheme != "tcp" && scheme != "ssh", strings.HasPrefix(rest, "/"):
		return Endpoint{}, fmt.Errorf("%q: %w: want unix://PATH or tcp://HOST:PORT", url, errEndpoint)
	case e.tcpAddress() == nil:
		return Endpoint{}, fmt.Errorf("%q: %w", url, ErrElsewhere)
	}
	return e, nil
}

func named(url, from string, getenv func(string) string) (Endpoint, bool, error) {
	e, err := EndpointAt(url)
	if err == nil && e.Socket == "" && wantsTLS(getenv) {
		err = fmt.Errorf("%q with TLS: %w", url, ErrElsewhere)
	}
	if err != nil {
		return Endpoint{}, false, fmt.Errorf("%s: %w", from, err)
	}
	e.From = from
	return e, true, nil
}

// wantsTLS reports whether the environment may have the commands speak TLS.
func wantsTLS(getenv func(string) string) bool {
	for _, name := range []string{"DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_TLS_CA", "CONTAINER_TLS_CERT", "CONTAINER_TLS_KEY"} {
		if getenv(name) != "" {
			return true
		}
	}
	return false
}

func atDefault(socket string) Endpoint {
	return Endpoint{URL: "unix://" + socket, Socket: socket, From: "default socket"}
}

// usable reports whether path is a socket that this process may connect to.
func usable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().Type() == fs.ModeSocket && unix.Access(path, unix.W_OK) == nil
}

// Variables says how env is to be changed for a process that is to reach the engine through a socket of ours: which variables
// go, by how they begin, and which come. DOCKER_HOST names the socket.
// Variables that would lead the docker command elsewhere, or make it speak TLS, are removed. A CONTAINER_HOST that names
// the same engine is changed too. One that names another engine stays, with the variables that belong to it. Relative
// addresses are taken from this process's working directory.
func (e Endpoint) Variables(env []string, socket string) (drop, add []string) {
	drop = []string{"DOCKER_HOST=", "DOCKER_CONTEXT=", "DOCKER_TLS=", "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH="}
	add = []string{"DOCKER_HOST=unix://" + socket}
	if e.hasPodman(env) {
		drop = append(drop, "CONTAINER_HOST=", "CONTAINER_CONNECTION=", "CONTAINER_SSHKEY=")
		add = append(add, "CONTAINER_HOST=unix://"+socket)
	}
	return drop, add
}

// hasPodman reports whether CONTAINER_HOST in env names this engine.
func (e Endpoint) hasPodman(env []string) bool {
	for _, assignment := range env {
		host, ok := strings.CutPrefix(assignment, "CONTAINER_HOST=")
		if !ok || host == "" {
			continue
		}
		other, err := EndpointAt(host)
		return err == nil && other.URL == e.URL
	}
	return false
}
