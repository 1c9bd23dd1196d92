package testkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Engine answers as a container engine does, as far as mcp-tether and its clients ask. It keeps containers and networks
// in memory, and nothing ever runs. The lock is for its fields, once it serves. The zero value has nothing.
type Engine struct {
	sync.Mutex
	Have map[string]*Object // by id
	// Takes, unless nil, may answer a request in the engine's place, and reports whether it did.
	Takes func(w http.ResponseWriter, r *http.Request) bool
	// Seen are the requests that came, and Did those by which objects changed: METHOD /path?query, without the version.
	Seen, Did []string

	made int // so far
}

// Object is a container or a network.
type Object struct {
	Name                     string
	Network, Running, Paused bool
	Labels                   map[string]string
	Created                  time.Time
	Ignores                  bool     // its stop signal
	In                       string   // the id of the network that a container is in
	VolumesFrom              []string // of other containers
}

// Left are copies of what the engine has.
func (e *Engine) Left() (all []Object) {
	e.Lock()
	defer e.Unlock()
	for _, x := range e.Have {
		all = append(all, *x)
	}
	return all
}

// Asked are the requests that came whose text contains the words.
func (e *Engine) Asked(words string) []string {
	e.Lock()
	defer e.Unlock()
	return slices.DeleteFunc(slices.Clone(e.Seen), func(s string) bool { return !strings.Contains(s, words) })
}

// Listen serves the engine at a socket until the test ends, and returns its URL.
func (e *Engine) Listen(t *testing.T) (url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", dir+"/e.sock")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + dir + "/e.sock"
}

// request is its text, without the version of the API.
func request(r *http.Request) string {
	return r.Method + " " + versionPath.ReplaceAllString(r.URL.String(), "/")
}

var versionPath = regexp.MustCompile(`^/v[0-9.]+/`)

// ServeHTTP answers a request.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := versionPath.ReplaceAllString(r.URL.Path, "/")
	e.Lock()
	e.Seen = append(e.Seen, request(r))
	takes := e.Takes
	e.Unlock()
	if takes != nil && takes(w, r) {
		return
	}
	part := append(strings.Split(strings.Trim(path, "/"), "/"), "", "")
	e.Lock()
	defer e.Unlock()
	x := e.Have[part[1]]
	switch {
	case path == "/_ping":
		_, _ = fmt.Fprint(w, "OK")
	case path == "/containers/create":
		e.create(w, r)
	case path == "/containers/json", path == "/networks":
		e.list(w, part[0] == "networks", r.FormValue("filters"))
	case part[0] != "containers" && part[0] != "networks" || x == nil:
		http.Error(w, `{"message":"nothing of the kind"}`, http.StatusNotFound)
	case r.Method == http.MethodGet:
		x.inspect(w, part[1])
	case part[2] == "stop" && x.Ignores:
		e.Did = append(e.Did, request(r))
		e.Unlock()
		<-r.Context().Done() // the engine's own time is longer than any client's
		e.Lock()
	default:
		e.change(w, r, part[1], part[2])
	}
}

func answer(w http.ResponseWriter, with any) { _ = json.NewEncoder(w).Encode(with) }

// create makes a container, which is not started.
func (e *Engine) create(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Labels map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, fmt.Sprintf(`{"message":%q}`, err), http.StatusBadRequest)
		return
	}
	if e.made++; e.Have == nil {
		e.Have = map[string]*Object{}
	}
	id := fmt.Sprintf("%064x", e.made)
	e.Have[id] = &Object{Name: r.URL.Query().Get("name"), Labels: asked.Labels, Created: time.Now()}
	w.WriteHeader(http.StatusCreated)
	answer(w, map[string]any{"Id": id, "Warnings": []string{}})
}

func (e *Engine) list(w http.ResponseWriter, networks bool, filters string) {
	var only struct{ Label, Network []string }
	if filters != "" {
		_ = json.Unmarshal([]byte(filters), &only)
	}
	all := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(e.Have)) {
		x := e.Have[id]
		lacks := func(label string) bool {
			name, value, whole := strings.Cut(label, "=")
			has, ok := x.Labels[name]
			return !ok || whole && has != value
		}
		switch {
		case x.Network != networks || slices.ContainsFunc(only.Label, lacks):
		case len(only.Network) > 0 && !slices.Contains(only.Network, x.In):
		case networks:
			all = append(all, map[string]any{"Id": id, "Name": x.Name, "Labels": x.Labels, "Created": x.Created, "Containers": map[string]any{}})
		default:
			all = append(all, map[string]any{
				"Id": id, "Names": []string{"/" + x.Name}, "Image": "i", "ImageID": "sha256:1", "Labels": x.Labels, "State": x.state(), "Created": x.Created.Unix(),
			})
		}
	}
	answer(w, all)
}

func (x *Object) state() string {
	switch {
	case x.Paused:
		return "paused"
	case x.Running:
		return "running"
	}
	return "created"
}

func (x *Object) inspect(w http.ResponseWriter, id string) {
	answer(w, map[string]any{
		"Id": id, "Name": "/" + x.Name, "Image": "sha256:1", "Created": x.Created.UTC().Format(time.RFC3339Nano),
		"Config":     map[string]any{"Image": "i", "Labels": x.Labels},
		"HostConfig": map[string]any{"VolumesFrom": x.VolumesFrom},
		"State":      map[string]any{"Status": x.state(), "Running": x.Running, "Paused": x.Paused},
	})
}

// change does to an object what a request asks for.
func (e *Engine) change(w http.ResponseWriter, r *http.Request, id, what string) {
	x := e.Have[id]
	switch {
	case r.Method == http.MethodDelete:
		delete(e.Have, id)
	case what == "unpause":
		x.Paused = false
	case !x.Running:
		http.Error(w, `{"message":"is not running"}`, http.StatusConflict)
		return
	case what == "kill", what == "stop":
		x.Running = false
	}
	e.Did = append(e.Did, request(r))
	w.WriteHeader(http.StatusNoContent)
}
