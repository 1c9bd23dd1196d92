package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// maxCreate is the longest body of a create, in bytes. Docker accepts any; clients send a few KiB.
const maxCreate = 4 << 20

var (
	errEnding = errors.New("the session is ending, it creates no more containers")
	errNoID   = errors.New("the engine's response has no id")
)

// create passes on a create with our labels added. It is noted before the engine is asked, and once more before the client
// learns the id. A create that cannot be labelled is refused.
func (l *link) create(x *exchange, head []byte, to route) bool {
	if to.kind == engine.Volume && x.request.ContentLength <= 0 && !x.request.Chunked {
		return l.forward(x, head) // docker 29 makes up a volume; it stays in any case
	}
	object, refused := l.readCreate(x.request)
	if refused == nil && object == nil {
		return false // the client has hung up
	}
	var request string
	if refused == nil {
		object, request, refused = l.p.label(object, to)
	}
	if refused != nil {
		l.p.Warn(fmt.Errorf("create of a %s refused: %w", to.kind, refused.err))
		return l.refuse(x.request, refused.status, refused.err)
	}
	if request != "" && to.kind != engine.Volume { // it stays in any case
		if !x.enter(&l.p.gate) {
			return l.refuse(x.request, unavailable, errEnding)
		}
		l.p.Note(engine.Note{Op: engine.OpCreate, Kind: to.kind, Request: request, Name: to.name, At: time.Now()})
		x.outcome, x.wantsBody = func(o outcome) { l.p.created(to, request, o) }, true
	}
	err := l.send(x, append(http1.WithLength(head, len(object)), object...))
	l.meter.release()
	return l.await(x, err)
}

// readCreate reads the body of a create. Both results are nil if the client has hung up.
func (l *link) readCreate(r http1.Request) ([]byte, *refusal) {
	if r.Encoding != "" {
		return nil, &refusal{unsupportedType, fmt.Errorf("labels cannot be added to a body in encoding %.40q", r.Encoding)}
	}
	if r.ContentLength > maxCreate {
		return nil, &refusal{tooLarge, http1.ErrBodyTooLong}
	}
	if r.ContentLength > 0 && !l.meter.reserve(r.ContentLength) {
		return nil, &refusal{unavailable, errBusy}
	}
	body := r.Body()
	if r.Continue && !body.Ended() {
		// The engine gets the body from us, so the client must be asked for it here.
		if _, err := io.WriteString(l.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, nil
		}
	}
	object, err := body.ReadAll(l.fromClient, maxCreate, nil)
	switch {
	case errors.Is(err, http1.ErrBodyTooLong):
		return nil, &refusal{tooLarge, err}
	case errors.Is(err, http1.ErrMalformedChunk):
		return nil, &refusal{badRequest, err}
	case errors.Is(err, errBusy):
		return nil, &refusal{unavailable, err}
	case err != nil:
		return nil, nil
	case len(object) == 0:
		return nil, &refusal{badRequest, fmt.Errorf("labels cannot be added: %w", io.ErrUnexpectedEOF)}
	}
	return object, nil
}

// label adds our labels to the body of a create. An empty request means that the object is not to be the session's.
func (p *Proxy) label(object []byte, to route) (out []byte, request string, refused *refusal) {
	if p.Attached {
		attached, err := isAttached(object)
		if err != nil {
			return nil, "", &refusal{badRequest, err}
		}
		if !attached || to.kind != engine.Container {
			return object, "", nil
		}
	}
	borrows := false
	if to.kind == engine.Container {
		b := borrowedBy(object)
		borrows = b.volumes()
		object = p.mountSocket(object, b.sources(), to)
	}
	p.rewriting.Lock()
	defer p.rewriting.Unlock()
	labels := p.Labels() // not earlier: they have the time, and a busy engine was asked above
	if borrows {
		labels[engine.LabelVolumes] = engine.BorrowedVolumes
	}
	out, request, err := relabel(object, to.labelsKey(), labels)
	if err != nil {
		return nil, "", &refusal{badRequest, fmt.Errorf("labels cannot be added: %w", err)}
	}
	return out, request, nil
}

// borrowed is what a container is to get from outside, as the body of a create names it in either API.
type borrowed struct {
	HostConfig struct {
		VolumesFrom []string // containers, each with a mode perhaps: NAME:ro
		Binds       []string // SOURCE:TARGET, perhaps with a mode
		Mounts      []mount
	}
	// Podman's own.
	Libpod  []string `json:"volumes_from"`
	Mounts  []mount
	Volumes json.RawMessage // []struct{ Name string }; for docker, an object of targets
}

type mount struct{ Source string }

// borrowedBy decodes a create. One that cannot be decoded is refused, here or by the engine.
func borrowedBy(object []byte) (b borrowed) {
	if json.Unmarshal(object, &b) != nil {
		return borrowed{}
	}
	b.HostConfig.VolumesFrom = append(b.HostConfig.VolumesFrom, b.Libpod...)
	b.HostConfig.Mounts = append(b.HostConfig.Mounts, b.Mounts...)
	var named []struct{ Name string }
	if json.Unmarshal(b.Volumes, &named) == nil {
		for _, v := range named {
			b.HostConfig.Mounts = append(b.HostConfig.Mounts, mount{v.Name})
		}
	}
	return b
}

// sources returns the paths that are mounted.
func (b borrowed) sources() (paths []string) {
	for _, bind := range b.HostConfig.Binds {
		source, _, _ := strings.Cut(bind, ":")
		paths = append(paths, source)
	}
	for _, m := range b.HostConfig.Mounts {
		paths = append(paths, m.Source)
	}
	return paths
}

// volumes reports whether a container gets volumes that the engine may take for the container's own, though they are
// anonymous ones of others. Podman does so with volumes by name too. Compose gives them when it makes a service anew.
func (b borrowed) volumes() bool {
	return len(b.HostConfig.VolumesFrom) > 0 || slices.ContainsFunc(b.sources(), isAnonymousName)
}

// isAnonymousName reports whether the engine may have made a name up: 32 random bytes in hexadecimal digits.
func isAnonymousName(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// created notes the outcome of a create.
func (p *Proxy) created(to route, request string, o outcome) {
	if !o.Success() {
		p.Note(engine.Note{Op: engine.OpRefused, Kind: to.kind, Request: request})
		return
	}
	var object struct{ ID string }
	err := o.decode(&object)
	if err == nil && object.ID == "" {
		err = errNoID
	}
	if err != nil {
		// The object may exist. The request stays pending, and its label will show it.
		p.Warn(fmt.Errorf("create of a %s: %w", to.kind, err))
		return
	}
	p.objects.add(to.kind, object.ID)
	p.Note(engine.Note{Op: engine.OpCreated, Kind: to.kind, Request: request, ID: object.ID, Name: to.name, At: time.Now()})
}

// isAttached reports whether a container is created for a client that attaches to it. Podman's own API has no field for
// that. There, a client that wants to talk to the container asks for its standard input or a terminal.
func isAttached(object []byte) (bool, error) {
	var x struct{ AttachStdin, AttachStdout, AttachStderr, Stdin, Terminal bool }
	if err := json.Unmarshal(object, &x); err != nil {
		return false, fmt.Errorf("cannot tell whether it is attached: %w", err)
	}
	return x.AttachStdin || x.AttachStdout || x.AttachStderr || x.Stdin || x.Terminal, nil
}
