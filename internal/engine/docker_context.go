package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dockerConfig returns the directory of the docker command's configuration, "" if there is no home directory.
func dockerConfig(getenv func(string) string) string {
	if dir := getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

// currentContext returns the name of the context that the docker command would use. A configuration that cannot be read
// counts as none: the command warns and goes on as well.
func currentContext(getenv func(string) string) string {
	if name := getenv("DOCKER_CONTEXT"); name != "" {
		return name
	}
	dir := dockerConfig(getenv)
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if dir == "" || readJSON(filepath.Join(dir, "config.json"), &config) != nil {
		return ""
	}
	return config.CurrentContext
}

func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

var errNoContext = errors.New("no such context (docker context ls lists them)")

// contextMeta is the part of a context's meta.json that matters here.
type contextMeta struct {
	Name      string
	Endpoints map[string]struct{ Host string }
}

// readContext finds a context by its name. The directory of a context is named by the SHA-256 of that name. The code
// for that hash would be a tenth of the program, would be loaded at every start, and has no other use here. So
// readContext reads all contexts: there are few.
func readContext(config, name string) (contextMeta, error) {
	dir := filepath.Join(config, "contexts", "meta")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return contextMeta{}, fmt.Errorf("list contexts: %w", err)
	}
	for _, entry := range entries {
		var meta contextMeta
		if readJSON(filepath.Join(dir, entry.Name(), "meta.json"), &meta) == nil && meta.Name == name {
			return meta, nil
		}
	}
	return contextMeta{}, errNoContext
}

// inContext returns the endpoint of a context.
func inContext(name string, getenv func(string) string) (Endpoint, bool, error) {
	fail := func(err error) (Endpoint, bool, error) {
		return Endpoint{}, false, fmt.Errorf("docker context %q: %w: %w", name, ErrEndpoint, err)
	}
	meta, err := readContext(dockerConfig(getenv), name)
	if err != nil {
		return fail(err)
	}
	e, err := EndpointAt(meta.Endpoints["docker"].Host, name, false)
	if err != nil {
		return fail(err)
	}
	e.From = "context " + name
	return e, true, nil
}
