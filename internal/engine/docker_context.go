package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dockerConfig returns the directory of the docker command's configuration.
func dockerConfig(getenv func(string) string) string {
	return cmp.Or(getenv("DOCKER_CONFIG"), filepath.Join("/", getenv("HOME"), ".docker"))
}

// currentContext returns the name of the context that the docker command would use. A configuration that cannot be read
// counts as none: the command warns and goes on as well.
func currentContext(getenv func(string) string) string {
	if name := getenv("DOCKER_CONTEXT"); name != "" {
		return name
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if readJSON(filepath.Join(dockerConfig(getenv), "config.json"), &config) != nil {
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

// inContext returns the endpoint of a context. The directory of a context is named by the SHA-256 of its name. The code for that
// hash would be a tenth of the program, would be loaded at every start, and has no other use here. So all contexts are read:
// there are few.
func inContext(name string, getenv func(string) string) (e Endpoint, ok bool, err error) {
	dir := filepath.Join(dockerConfig(getenv), "contexts", "meta")
	entries, _ := os.ReadDir(dir) // none where it cannot be read
	err = fmt.Errorf("%w: %w", errEndpoint, errNoContext)
	for _, entry := range entries {
		var meta struct {
			Name      string
			Endpoints map[string]struct{ Host string }
		}
		if readJSON(filepath.Join(dir, entry.Name(), "meta.json"), &meta) == nil && meta.Name == name {
			e, err = EndpointAt(meta.Endpoints["docker"].Host)
			break
		}
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
