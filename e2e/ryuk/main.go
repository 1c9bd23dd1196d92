// Command ryuk stands in for Testcontainers' reaper of that name, which cannot be had where there is no image registry. A
// client hands it filters ("label=NAME=VALUE", a line each, acknowledged by "ACK"). Once no client has been connected for
// RYUK_RECONNECTION_TIMEOUT it removes what the filters find in the engine at /var/run/docker.sock, and ends.
//
// What clients see is as in github.com/testcontainers/moby-ryuk v0.14: the port, the word "Started", the reply and the
// time. As there, SIGTERM makes it remove at once if no client is connected.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	socket             = "/var/run/docker.sock"
	address            = ":8080"
	connectionTimeout  = time.Minute
	defaultReconnected = 10 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ryuk:", err)
		os.Exit(1)
	}
}

// event is what a client did: it came, asked for a filter, or went.
type event struct {
	clients int // +1 or -1
	filter  string
}

func run() error {
	patience, err := time.ParseDuration(os.Getenv("RYUK_RECONNECTION_TIMEOUT"))
	if err != nil {
		patience = defaultReconnected
	}
	e := newEngine()
	if err := e.ask(http.MethodGet, "/_ping", nil); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	_, _ = fmt.Fprintln(os.Stdout, "Started")
	events := make(chan event)
	go accept(l, events)

	filters, clients := map[string]bool{}, 0
	for timer := time.NewTimer(connectionTimeout); ; {
		select {
		case ev := <-events:
			clients += ev.clients
			if ev.filter != "" {
				filters[ev.filter] = true
			}
			timer.Stop()
			if clients == 0 {
				timer.Reset(patience)
			}
			continue
		case <-term:
			if clients > 0 {
				continue // it waits for them for ten minutes
			}
		case <-timer.C:
		}
		return e.prune(filters)
	}
}

func accept(l net.Listener, events chan<- event) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		events <- event{clients: 1}
		go func() {
			defer func() { _ = c.Close(); events <- event{clients: -1} }()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if filter, ok := strings.CutPrefix(lines.Text(), "label="); ok {
					events <- event{filter: filter}
				}
				_, _ = fmt.Fprintln(c, "ACK")
			}
		}()
	}
}

// engine is the one behind the mounted socket.
type engine struct{ client http.Client }

func newEngine() *engine {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &engine{http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: connectionTimeout}}
}

// prune removes all containers, networks and volumes with one of the labels. A failure does not keep it from the others.
func (e *engine) prune(labels map[string]bool) (err error) {
	for label := range labels {
		filter, _ := json.Marshal(map[string][]string{"label": {label}})
		query := "?all=1&filters=" + url.QueryEscape(string(filter))
		var containers, networks []struct{ ID string }
		var volumes struct{ Volumes []struct{ Name string } }
		for path, list := range map[string]any{"/containers/json": &containers, "/networks": &networks, "/volumes": &volumes} {
			if failed := e.ask(http.MethodGet, path+query, list); failed != nil {
				err = failed
			}
		}
		for _, c := range containers {
			err = first(err, e.ask(http.MethodDelete, "/containers/"+c.ID+"?force=1&v=1", nil))
		}
		for _, n := range networks {
			err = first(err, e.ask(http.MethodDelete, "/networks/"+n.ID, nil))
		}
		for _, v := range volumes.Volumes {
			err = first(err, e.ask(http.MethodDelete, "/volumes/"+v.Name+"?force=1", nil))
		}
	}
	return err
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// ask makes a request, and decodes its body unless into is nil.
func (e *engine) ask(method, path string, into any) error {
	request, err := http.NewRequest(method, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
