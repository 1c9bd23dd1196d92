package keeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcp-tether/internal/engine"
)

// Why a mount stays as it is.
var (
	errElsewhere = errors.New("the engine is elsewhere")
	errSees      = errors.New("the engine cannot mount the session's socket")
)

// mountSocket changes a create so that a mount of an engine's socket leads where the client means it to lead.
//
// A container that is to get the engine's own socket gets the session's: what is created through it is the session's
// too. That needs an engine that sees our files. If the session is in a container, the engine does not see them, and
// cannot mount the session's socket. The new container then gets the engine's own socket in place of the one that
// DOCKER_HOST names.
func (p *proxy) mountSocket(object members, to route) {
	theirs, ours := p.At.IsSocket, func(source string) bool { return source == p.Socket }
	switch {
	case remount(object, theirs, ""):
		if err := p.lend(); err != nil {
			p.warnOfSocket(to)
			return
		}
		remount(object, theirs, p.Socket)
	case remount(object, ours, ""):
		if sees, err := p.sees(); err == nil && !sees {
			remount(object, ours, p.At.Socket)
			p.warnOfSocket(to)
		}
	}
}

func (p *proxy) warnOfSocket(to route) {
	p.Warn(fmt.Errorf("container %.80q has the engine's own socket (%.80s): what is created through it is not known and stays", to.name, cmp.Or(p.At.Socket, p.At.URL)))
}

// lend opens the session's socket to containers. The error says that the engine cannot mount it.
func (p *proxy) lend() error {
	sees, err := p.sees()
	if err == nil && (!sees || strings.Contains(p.Socket, ":")) {
		err = errSees // a colon cannot be in a bind
	}
	if err != nil {
		return err
	}
	return p.At.Lend(p.Socket)
}

// askTimeout bounds the proxy's own question to the engine.
const askTimeout = 30 * time.Second

// sees reports whether the engine sees the session's socket as we do. An error says that this is unknown.
func (p *proxy) sees() (bool, error) {
	if p.At.Socket == "" {
		return false, errElsewhere
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return engine.Client{Dial: p.Dial}.Sees(ctx, p.Socket)
}

// remount mounts another path in place of certain ones, and reports whether it has found any. With "" it only looks. What
// cannot be decoded is left to the engine, which refuses it.
func remount(object members, old func(source string) bool, path string) (found bool) {
	var host members
	for key, value := range object {
		switch {
		case strings.EqualFold(key, "Mounts"): // podman's own API
			found = remountIn(object, key, old, path) || found
		case strings.EqualFold(key, "HostConfig") && json.Unmarshal(value, &host) == nil:
			for inner := range host {
				if strings.EqualFold(inner, "Binds") || strings.EqualFold(inner, "Mounts") {
					found = remountIn(host, inner, old, path) || found
				}
			}
			if path != "" {
				_ = object.put(key, host)
			}
		}
	}
	return found
}

// remountIn does so in a list of mounts: each is a text SOURCE:TARGET, or an object.
func remountIn(in members, key string, old func(string) bool, path string) (found bool) {
	var mounts []json.RawMessage
	if json.Unmarshal(in[key], &mounts) != nil {
		return false
	}
	for i, text := range mounts {
		var bind string
		var m members
		var err error
		source := ""
		if json.Unmarshal(text, &bind) == nil {
			var target string
			source, target, _ = strings.Cut(bind, ":")
			text, err = json.Marshal(path + ":" + target)
		} else if json.Unmarshal(text, &m) == nil && m.take("source", &source) == nil {
			_ = m.put("Source", path)
			text, err = json.Marshal(m)
		}
		if err == nil && old(source) {
			found = true
			mounts[i] = text
		}
	}
	if found && path != "" {
		_ = in.put(key, mounts)
	}
	return found
}
