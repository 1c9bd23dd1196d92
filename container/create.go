package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// createLimit is the longest body of a create, in bytes. Docker takes any, but one of 10 MiB is odd already.
const createLimit = 64 << 20

var (
	errEnding = errors.New("the session is ending, it creates and starts no more containers")
	errNoID   = errors.New("the engine's reply has no id")
)

// create has an object created with our labels on it, and notes it before the engine is asked and before the client
// learns its id. What cannot be labelled is not asked for.
func (l *link) create(x *exchange, head []byte, to route) bool {
	object, refused := l.readCreate(x.request)
	if refused == nil && object == nil {
		return false // the client has gone
	}
	var request string
	if refused == nil {
		object, request, refused = l.p.label(object, to)
	}
	if refused != nil {
		l.p.Warn(fmt.Errorf("create of a %s refused: %w", to.kind, refused.err))
		return l.refuse(x.request, refused.status, refused.err)
	}
	if request != "" {
		if !x.through(&l.p.gate) {
			return l.refuse(x.request, 503, errEnding)
		}
		l.p.Note(Note{Op: OpCreate, Kind: to.kind, Request: request, Name: to.name, At: time.Now()})
		x.settle, x.wants = func(o outcome) { l.p.created(to, request, o) }, true
	}
	return l.await(x, l.ask(x, append(withLength(head, len(object)), object...)))
}

// readCreate reads the body of a create. Both results are nil when the client has gone.
func (l *link) readCreate(r request) ([]byte, *refusal) {
	if r.encoding != "" {
		return nil, &refusal{415, fmt.Errorf("labels cannot be added to a body in encoding %.40q", r.encoding)}
	}
	y := bodyOf(r.framing, false)
	if y.contentLength > createLimit {
		return nil, &refusal{413, errBodyTooLong}
	}
	if r.expects && !y.ended() {
		// The client sends no body before somebody asks for it, and the engine is to get it from us.
		if _, err := io.WriteString(l.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, nil
		}
	}
	_, object, err := y.read(l.fromClient, createLimit)
	switch {
	case errors.Is(err, errBodyTooLong):
		return nil, &refusal{413, err}
	case errors.Is(err, errChunk):
		return nil, &refusal{400, err}
	case err != nil:
		return nil, nil
	case len(object) == 0:
		return nil, &refusal{400, fmt.Errorf("labels cannot be added: %w", io.ErrUnexpectedEOF)}
	}
	return object, nil
}

// label adds our labels to what a create asks for. An empty request means that it is none of the session's business.
func (p *Proxy) label(object []byte, to route) (out []byte, request string, refused *refusal) {
	if p.Attached {
		attached, err := isAttached(object)
		if err != nil {
			return nil, "", &refusal{400, err}
		}
		if !attached || to.kind != Container {
			return object, "", nil
		}
	}
	out, request, err := relabel(object, to.labelsKey(), p.Labels())
	if err != nil {
		return nil, "", &refusal{400, err}
	}
	return out, request, nil
}

// withLength is a head whose body was replaced by one of n bytes.
func withLength(head []byte, n int) []byte {
	line, fields := firstLine(head)
	out := append(make([]byte, 0, len(head)+n+64), line+"\r\n"...)
	for field := range strings.Lines(fields) {
		name, _, _ := strings.Cut(field, ":")
		switch strings.ToLower(name) {
		case "content-length", "transfer-encoding", "trailer", "expect", "\r\n", "\n":
			continue
		}
		out = append(out, field...)
	}
	return append(out, "Content-Length: "+strconv.Itoa(n)+"\r\n\r\n"...)
}

// created notes what became of a create.
func (p *Proxy) created(to route, request string, o outcome) {
	if !o.success() {
		p.Note(Note{Op: OpRefused, Kind: to.kind, Request: request})
		return
	}
	// A volume has a name only. podman's networks have both, of which the id counts.
	var reply struct{ ID, Name string }
	err := o.err
	if err == nil {
		err = json.Unmarshal(o.data, &reply)
	}
	id := reply.ID
	if to.kind == Volume {
		id = reply.Name
	}
	if err == nil && id == "" {
		err = errNoID
	}
	if err != nil {
		// It may well exist. The request stays open, and the labels will tell.
		p.Warn(fmt.Errorf("create of a %s: %w", to.kind, err))
		return
	}
	p.own.add(to.kind, id)
	p.Note(Note{Op: OpCreated, Kind: to.kind, Request: request, ID: id, Name: to.name, At: time.Now()})
}

// play has podman make pods from a manifest, which takes no labels of ours, and notes the pods that it reports.
func (l *link) play(x *exchange, head []byte) bool {
	if l.p.Attached {
		return l.forward(x, head)
	}
	if !x.through(&l.p.gate) {
		return l.refuse(x.request, 503, errEnding)
	}
	x.settle, x.wants = l.p.played, true
	return l.forward(x, head)
}

// played notes the pods that podman made.
func (p *Proxy) played(o outcome) {
	if !o.success() {
		return
	}
	var reply struct{ Pods []struct{ ID string } }
	err := o.err
	if err == nil {
		err = json.Unmarshal(o.data, &reply)
	}
	if err != nil {
		p.Warn(fmt.Errorf("pods that podman made from a manifest are not known: %w", err))
		return
	}
	for _, pod := range reply.Pods {
		if pod.ID != "" {
			p.own.add(Pod, pod.ID)
			p.Note(Note{Op: OpCreated, Kind: Pod, ID: pod.ID, At: time.Now()})
		}
	}
}
