package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Endpoint is where an engine listens.
type Endpoint struct {
	URL string // as DOCKER_HOST has it
	// Socket is the path of the engine's unix socket; "" for an engine that is reached through its client's dial-stdio.
	Socket string
	// Named says that the flag, the environment or a context named it; false for a default socket that merely exists.
	Named bool
	// Podman says that it was found as podman's.
	Podman bool
	// From says, for people, what named it: "--engine", "DOCKER_HOST", "context NAME", "CONTAINER_HOST", "default socket".
	From string
	// Context is the docker context to dial through, in which its TLS material lies; "" to dial by URL.
	Context string
}

// The sockets that are tried when nothing is named.
const (
	dockerSocket = "/var/run/docker.sock"
	podmanSocket = "/run/podman/podman.sock"
	podmanInUser = "podman/podman.sock" // below XDG_RUNTIME_DIR
)

// ErrEndpoint says that an engine is named in a way that cannot be understood.
var ErrEndpoint = errors.New("not a container engine's address")

// Resolve finds the engine as the docker command does, then as podman does: the flag, DOCKER_HOST, DOCKER_CONTEXT, the
// current context of the docker configuration, docker's default socket; CONTAINER_HOST, podman's default sockets. The
// flag may be a plain path as well. Without any of them ok is false; a default socket counts if it is a socket that this
// process may write to. Nothing is dialled, and no file is read but the configuration's, if there is one.
//
// The error says that an engine is named, but not understood; it wraps ErrEndpoint.
//
// The order is that of resolveContextName and getServerHost in github.com/docker/cli, cli/command/cli.go.
func Resolve(flag string, getenv func(string) string) (e Endpoint, ok bool, err error) {
	if strings.HasPrefix(flag, "/") {
		flag = "unix://" + flag
	}
	if flag != "" {
		return named(flag, "--engine")
	}
	if host := strings.TrimSpace(getenv("DOCKER_HOST")); host != "" {
		return named(host, "DOCKER_HOST")
	}
	if name := currentContext(getenv); name != "" && name != "default" {
		return inContext(name, getenv)
	}
	if usable(dockerSocket) {
		return atDefault(dockerSocket, false), true, nil
	}
	if host := getenv("CONTAINER_HOST"); host != "" {
		e, ok, err = named(host, "CONTAINER_HOST")
		e.Podman = true
		return e, ok, err
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" && usable(filepath.Join(dir, podmanInUser)) {
		return atDefault(filepath.Join(dir, podmanInUser), true), true, nil
	}
	if usable(podmanSocket) {
		return atDefault(podmanSocket, true), true, nil
	}
	return Endpoint{}, false, nil
}

// EndpointAt gives the endpoint that an address, and a context if there was one, stand for: what a record holds. An
// address is unix://PATH, tcp://HOST:PORT or ssh://HOST; without a scheme it is tcp, as the docker command has it. The
// error wraps ErrEndpoint.
func EndpointAt(url, context string) (Endpoint, error) {
	e := Endpoint{URL: url, Named: true, Context: context}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "tcp", url
		e.URL = "tcp://" + url
	}
	switch {
	case scheme == "unix" && rest == "":
		rest = dockerSocket
		fallthrough
	case scheme == "unix":
		path, err := absolute(rest)
		if err != nil {
			return Endpoint{}, err
		}
		// A context adds nothing to a socket.
		e.URL, e.Socket, e.Context = "unix://"+path, path, ""
		return e, nil
	case rest == "", scheme != "tcp" && scheme != "ssh", strings.HasPrefix(rest, "/"):
		return Endpoint{}, fmt.Errorf("%q: %w: want unix://PATH, tcp://HOST:PORT or ssh://HOST", url, ErrEndpoint)
	}
	return e, nil
}

// absolute makes a socket's path mean the same everywhere. A name in Linux's abstract space begins with '@'.
func absolute(path string) (string, error) {
	if strings.HasPrefix(path, "@") {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("path of the engine's socket: %w", err)
	}
	return abs, nil
}

func named(url, from string) (Endpoint, bool, error) {
	e, err := EndpointAt(url, "")
	if err != nil {
		return Endpoint{}, false, fmt.Errorf("%s: %w", from, err)
	}
	e.From = from
	return e, true, nil
}

func atDefault(socket string, podman bool) Endpoint {
	return Endpoint{URL: "unix://" + socket, Socket: socket, Podman: podman, From: "default socket"}
}

// usable reports whether a socket is there that this process may connect to.
func usable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().Type() == fs.ModeSocket && writable(path)
}

// dockerConfig is the directory of the docker command's configuration, "" without a home.
func dockerConfig(getenv func(string) string) string {
	if dir := getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

// currentContext names the context that the docker command would use. A configuration that cannot be read names none:
// the command warns and goes on, too.
func currentContext(getenv func(string) string) string {
	if name := getenv("DOCKER_CONTEXT"); name != "" {
		return name
	}
	dir := dockerConfig(getenv)
	if dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return ""
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if json.Unmarshal(b, &config) != nil {
		return ""
	}
	return config.CurrentContext
}

// errNoContext says that no context has the name.
var errNoContext = errors.New("no such context (docker context ls lists them)")

// contextMeta is what the docker command keeps of a context.
type contextMeta struct {
	Name      string
	Endpoints map[string]struct{ Host string }
}

// readContext finds a context by its name. Its directory is called by the SHA-256 of the name, which would be our only
// use for that: crypto is a tenth of a program, and loaded at every start. So all are read; there are few.
func readContext(config, name string) (contextMeta, error) {
	dir := filepath.Join(config, "contexts", "meta")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return contextMeta{}, fmt.Errorf("list contexts: %w", err)
	}
	for _, entry := range entries {
		var meta contextMeta
		b, err := os.ReadFile(filepath.Join(dir, entry.Name(), "meta.json"))
		if err == nil && json.Unmarshal(b, &meta) == nil && meta.Name == name {
			return meta, nil
		}
	}
	return contextMeta{}, errNoContext
}

// inContext reads the endpoint of a context.
func inContext(name string, getenv func(string) string) (Endpoint, bool, error) {
	fail := func(err error) (Endpoint, bool, error) {
		return Endpoint{}, false, fmt.Errorf("docker context %q: %w: %w", name, ErrEndpoint, err)
	}
	meta, err := readContext(dockerConfig(getenv), name)
	if err != nil {
		return fail(err)
	}
	e, err := EndpointAt(meta.Endpoints["docker"].Host, name)
	if err != nil {
		return fail(err)
	}
	e.From = "context " + name
	return e, true, nil
}

// Environ returns env for those who are to reach the engine through a socket of ours. DOCKER_HOST names the socket, and
// what would lead the docker command past it, or make it speak TLS there, is gone. If CONTAINER_HOST named the same
// engine, it names the socket, too; one that names another engine stays, with what belongs to it. Relative addresses
// are understood from this process's directory.
func (e Endpoint) Environ(env []string, socket string) []string {
	gone := map[string]bool{
		"DOCKER_HOST": true, "DOCKER_CONTEXT": true,
		"DOCKER_TLS": true, "DOCKER_TLS_VERIFY": true, "DOCKER_CERT_PATH": true,
	}
	podman := e.hasPodman(env)
	if podman {
		gone["CONTAINER_HOST"], gone["CONTAINER_CONNECTION"], gone["CONTAINER_SSHKEY"] = true, true, true
	}
	out := make([]string, 0, len(env)+2)
	for _, assignment := range env {
		if name, _, _ := strings.Cut(assignment, "="); !gone[name] {
			out = append(out, assignment)
		}
	}
	out = append(out, "DOCKER_HOST=unix://"+socket)
	if podman {
		out = append(out, "CONTAINER_HOST=unix://"+socket)
	}
	return out
}

// hasPodman reports whether CONTAINER_HOST in env names this engine.
func (e Endpoint) hasPodman(env []string) bool {
	for _, assignment := range env {
		host, ok := strings.CutPrefix(assignment, "CONTAINER_HOST=")
		if !ok || host == "" {
			continue
		}
		other, err := EndpointAt(host, "")
		return err == nil && other.URL == e.URL
	}
	return false
}

// MachineID names this machine to those who share an engine: 16 hexadecimal digits, or "" where there is no machine id.
// The id itself is to be kept from others (machine-id(5)). Of its 128 bits the hash has 64: enough to tell machines apart,
// and too few to give the id back, whatever the hash is.
func MachineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || id == "" || id == "uninitialized" {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("mcp-tether machine " + id))
	return fmt.Sprintf("%016x", h.Sum64())
}

// NewRequest gives a random id of a create request, of 16 hexadecimal digits.
func NewRequest() string { return fmt.Sprintf("%016x", rand.Uint64()) }
