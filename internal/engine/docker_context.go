package engine

import (
	"encoding/json"
	"errors"
	"fmt"
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

// hostOf finds the address of a context by its name. The directory of a context is named by the SHA-256 of that name. The
// code for that hash would be a tenth of the program, would be loaded at every start, and has no other use here. So all
// contexts are read: there are few.
func hostOf(config, context string) (string, error) {
	dir := filepath.Join(config, "contexts", "meta")
	entries, _ := os.ReadDir(dir) // none where it cannot be read
	for _, entry := range entries {
		var meta struct {
			Name      string
			Endpoints map[string]struct{ Host string }
		}
		if readJSON(filepath.Join(dir, entry.Name(), "meta.json"), &meta) == nil && meta.Name == context {
			return meta.Endpoints["docker"].Host, nil
		}
	}
	return "", fmt.Errorf("%w: %w", errEndpoint, errNoContext)
}

// inContext returns the endpoint of a context.
func inContext(name string, getenv func(string) string) (e Endpoint, ok bool, err error) {
	host, err := hostOf(dockerConfig(getenv), name)
	if err == nil {
		e, err = EndpointAt(host)
	}
	if err == nil && e.Socket == "" {
		err = ErrElsewhere // its TLS files are the docker command's
	}
	if err != nil {
		return Endpoint{}, false, fmt.Errorf("docker context %q: %w", name, err)
	}
	e.From = "context " + name
	return e, true, nil
}
