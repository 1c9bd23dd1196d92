package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/jsonedit"
)

// Why a mount stays as it is.
var (
	errElsewhere = errors.New("the engine is elsewhere")
	errSees      = errors.New("it is as the engine sees it")
	errTwice     = errors.New("the create names its mounts twice")
)

// mountSocket returns a create whose mount of an engine's socket leads where the client means it to lead.
//
// A container that is to get the engine's own socket gets the session's: what is created through it is the session's
// too. That needs an engine that sees our files. If the session is in a container, the engine does not see them, and
// cannot mount the session's socket. The new container then gets the engine's own socket in place of the one that
// DOCKER_HOST names.
func (p *Proxy) mountSocket(object []byte, sources []string, to route) []byte {
	from, path, toOurs := p.At.IsSocket, p.Socket, true
	if !slices.ContainsFunc(sources, from) {
		from, path, toOurs = func(source string) bool { return source == p.Socket }, p.At.Socket, false
	}
	if !slices.ContainsFunc(sources, from) {
		return object
	}
	out, err := p.remount(object, from, path, toOurs)
	if (err == nil) != toOurs {
		p.Warn(fmt.Errorf("container %.80q has the engine's own socket (%.80s): what is created through it is not known and stays", to.name, cmp.Or(p.At.Socket, p.At.URL)))
	}
	if err != nil {
		return object
	}
	return out
}

// remount mounts path in place of the old sources, on condition that the engine sees the session's socket. If ifSeen is
// false, the condition is that it does not.
func (p *Proxy) remount(object []byte, old func(source string) bool, path string, ifSeen bool) ([]byte, error) {
	if p.At.Socket == "" {
		return nil, errElsewhere
	}
	sees, err := p.sees(p.Socket)
	if err == nil && sees != ifSeen {
		err = errSees
	}
	if err == nil && ifSeen {
		err = p.At.Lend(p.Socket)
	}
	if err != nil {
		return nil, err
	}
	return replaceSources(object, old, path)
}

// askTimeout bounds the proxy's own question to the engine.
const askTimeout = 30 * time.Second

// sees reports whether the engine sees a path as we do. An error says that this is unknown.
func (p *Proxy) sees(path string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return engine.Client{Dial: p.Dial}.Sees(ctx, path)
}

// replaceSources returns a create in which another path is mounted in place of certain ones.
func replaceSources(object []byte, old func(source string) bool, path string) ([]byte, error) {
	for _, member := range [][]string{{"HostConfig", "Binds"}, {"HostConfig", "Mounts"}, {"mounts"}} {
		values, err := jsonedit.Values(object, strings.EqualFold, member...)
		switch {
		case err != nil:
			return nil, err
		case len(values) > 1:
			return nil, errTwice
		case len(values) == 0 || string(values[0]) == "null":
			continue
		}
		var mounts []json.RawMessage
		if err := json.Unmarshal(values[0], &mounts); err != nil {
			return nil, err
		}
		for i := range mounts {
			if mounts[i], err = replaceSource(mounts[i], old, path); err != nil {
				return nil, err
			}
		}
		value, err := json.Marshal(mounts)
		if err == nil {
			object, err = jsonedit.Set(object, value, strings.EqualFold, member...)
		}
		if err != nil {
			return nil, err
		}
	}
	return object, nil
}

// replaceSource does the same in one mount: a text SOURCE:TARGET, or an object.
func replaceSource(text json.RawMessage, old func(string) bool, path string) (json.RawMessage, error) {
	var bind string
	var m mount
	switch {
	case json.Unmarshal(text, &bind) == nil:
		source, rest, _ := strings.Cut(bind, ":")
		if !old(source) {
			return text, nil
		}
		if strings.Contains(path, ":") {
			return nil, fmt.Errorf("%q cannot be in a bind", path)
		}
		return json.Marshal(path + ":" + rest)
	case json.Unmarshal(text, &m) == nil && old(m.Source):
		value, err := json.Marshal(path)
		if err != nil {
			return nil, err
		}
		return jsonedit.Set(text, value, strings.EqualFold, "Source")
	}
	return text, nil
}
