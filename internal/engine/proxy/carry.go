package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-tether/internal/engine"
)

// carry notes the anonymous volumes of the session's containers that a new container gets by name. Compose does this
// when it recreates a service. To docker they are named volumes from then on, and would stay. carry reports whether any
// volume may be another's.
func (p *Proxy) carry(b borrowed) (others bool) {
	for _, name := range b.sources() {
		if !isAnonymousName(name) || p.objects.has(engine.Volume, name) {
			continue
		}
		volume, err := p.anonymousOfSession(name)
		if err == nil {
			p.objects.add(engine.Volume, name)
			p.Note(engine.Note{Op: engine.OpCarry, Kind: engine.Volume, ID: name, Started: volume.CreatedAt})
			continue
		}
		others = true
		p.objects.others.Store(name, nil)
		if !errors.Is(err, engine.ErrNotFound) {
			p.Warn(fmt.Errorf("cannot tell whose volume %s is, it stays: %w", name, err))
		}
	}
	return others
}

// isAnonymousName reports whether the engine may have made a name up: 32 random bytes in hexadecimal digits.
func isAnonymousName(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// anonymousOfSession returns a volume that the engine made for a container of the session, and ErrNotFound for any
// other. Podman does not report this. There, a volume that no create of the session has named was made for the
// container.
func (p *Proxy) anonymousOfSession(name string) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	cl := engine.Client{Dial: p.Dial}
	users, err := cl.ContainersWith(ctx, engine.Volume, name, "")
	if err != nil {
		return engine.Info{}, err
	}
	for _, id := range users {
		if !p.objects.has(engine.Container, id) {
			continue
		}
		x, err := cl.Inspect(ctx, id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return engine.Info{}, err
		}
		_, others := p.objects.others.Load(name)
		if slices.Contains(x.Anonymous, name) || x.Anonymous == nil && !x.SharesVolumes && !others {
			return cl.Volume(ctx, name)
		}
	}
	return engine.Info{}, engine.ErrNotFound
}
