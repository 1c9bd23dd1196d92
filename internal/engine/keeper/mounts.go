package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-tether/internal/engine"
)

// askTimeout bounds the proxy's own question to the engine.
const askTimeout = 30 * time.Second

// mountSocket changes a create so that a mount of an engine's socket leads where the client means it to lead.
//
// A container that is to get the engine's own socket gets the session's: what is created through it is the session's
// too. That needs an engine that sees our files. If the session is in a container, the engine does not see them, and
// cannot mount the session's socket. The new container then gets the engine's own socket in place of the one that
// DOCKER_HOST names.
func (p *proxy) mountSocket(object members, to route) {
	if p.At.Socket == "" {
		return // its files are not ours
	}
	sees := sync.OnceValues(func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		return engine.Client{Dial: p.Dial}.Sees(ctx, p.Socket)
	})
	warn := func() {
		p.Warn(fmt.Errorf("container %.80q has the engine's own socket (%.80s): what is created through it is not known and stays", to.name, p.At.Socket))
	}
	remount(object, func(source string) string {
		switch {
		case p.At.IsSocket(source):
			if ok, err := sees(); err == nil && ok && p.At.Lend(p.Socket) == nil {
				return p.Socket
			}
			warn()
		case source == p.Socket:
			if ok, err := sees(); err == nil && !ok {
				warn()
				return p.At.Socket
			}
		}
		return source
	})
}

// remount gives the mounts of a create the sources that they are to have. What cannot be decoded is left to the engine, which
// refuses it.
func remount(object members, to func(source string) string) {
	for key, value := range object {
		var host members
		switch {
		case strings.EqualFold(key, "Mounts"): // podman's own API
			remountIn(object, key, to)
		case strings.EqualFold(key, "HostConfig") && json.Unmarshal(value, &host) == nil && host != nil:
			for inner := range host {
				if strings.EqualFold(inner, "Binds") || strings.EqualFold(inner, "Mounts") {
					remountIn(host, inner, to)
				}
			}
			_ = object.put(key, host)
		}
	}
}

// remountIn does so in a list of mounts: each is a text SOURCE:TARGET, or an object.
func remountIn(in members, key string, to func(source string) string) {
	var mounts []json.RawMessage
	if json.Unmarshal(in[key], &mounts) != nil {
		return
	}
	for i, text := range mounts {
		var bind, source string
		var m members
		switch {
		case json.Unmarshal(text, &bind) == nil:
			source, target, found := strings.Cut(bind, ":")
			if found {
				mounts[i], _ = json.Marshal(to(source) + ":" + target)
			}
		case json.Unmarshal(text, &m) == nil && m.take("source", &source) == nil && source != "":
			_ = m.put("Source", to(source))
			mounts[i], _ = json.Marshal(m)
		}
	}
	_ = in.put(key, mounts)
}
