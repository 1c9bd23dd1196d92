//go:build amd64

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// engine answers as a container engine does, as far as mcp-tether asks. Its containers never run.
type engine struct {
	mu         sync.Mutex
	containers map[string]container
	made       int
}

type container struct {
	name   string
	labels map[string]string
	at     time.Time
}

func startEngine() (*engine, error) {
	l, err := net.Listen("unix", engineSocket)
	if err != nil {
		return nil, err
	}
	e := &engine{containers: map[string]container{}}
	s := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return e, nil
}

// left lists the session's containers that were not removed. A container without its label was made past the proxy.
// Where there can be no proxy, a warning says so.
func (e *engine) left() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for id, c := range e.containers {
		if c.labels["mcp-tether.session"] == "" {
			continue
		}
		out = append(out, "container "+id[len(id)-4:])
	}
	return out
}

var versionPath = regexp.MustCompile(`^/v[0-9.]+/`)

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := versionPath.ReplaceAllString(r.URL.Path, "/")
	word := strings.Split(path, "/")
	switch {
	case path == "/_ping":
		_, _ = fmt.Fprint(w, "OK")
	case path == "/containers/create":
		e.create(w, r)
	case path == "/containers/json":
		e.list(w)
	case path == "/networks":
		_, _ = fmt.Fprint(w, "[]")
	case word[1] == "images" && word[len(word)-1] == "json":
		_, _ = fmt.Fprint(w, `{"Id":"sha256:1","Config":{"Labels":{}}}`)
	case word[1] == "containers" && len(word) > 2:
		e.one(w, r, word[2])
	default:
		http.Error(w, `{"message":"page not found"}`, http.StatusNotFound)
	}
}

func (e *engine) create(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Labels map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, fmt.Sprintf(`{"message":%q}`, err), http.StatusBadRequest)
		return
	}
	e.made++
	id := fmt.Sprintf("%064x", e.made)
	e.containers[id] = container{r.URL.Query().Get("name"), asked.Labels, time.Now()}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"Id":%q,"Warnings":[]}`, id)
}

func (e *engine) list(w http.ResponseWriter) {
	list := []map[string]any{}
	for id, c := range e.containers {
		list = append(list, map[string]any{
			"Id": id, "Names": []string{"/" + c.name}, "Image": "i", "ImageID": "sha256:1", "Labels": c.labels, "State": "created", "Created": c.at.Unix(),
		})
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (e *engine) one(w http.ResponseWriter, r *http.Request, id string) {
	c, found := e.containers[id]
	switch {
	case !found:
		http.Error(w, `{"message":"No such container"}`, http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(e.containers, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{
			"Id": id, "Name": "/" + c.name, "Image": "sha256:1", "Created": c.at.UTC().Format(time.RFC3339Nano),
			"Config": map[string]any{"Image": "i", "Labels": c.labels}, "State": map[string]any{"Status": "created"},
		})
	default:
		http.Error(w, `{"message":"is not running"}`, http.StatusConflict)
	}
}
