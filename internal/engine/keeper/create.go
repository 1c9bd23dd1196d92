package keeper

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"mcp-tether/internal/engine"
)

const (
	// maxCreate is the longest body of a create, in bytes. Docker accepts any; clients send a few KiB.
	maxCreate = 4 << 20
	// maxCreated is the longest response to one; the engines write a few hundred bytes.
	maxCreated = 1 << 20
)

var (
	errEnding = errors.New("the session is ending, it creates no more containers")
	errNoID   = errors.New("the engine's response has no id")
)

// create passes on a create with our labels added. Its outcome is known before the client learns it, and also if the client
// has gone. A create that cannot be labelled is refused.
func (p *proxy) create(client net.Conn, br *bufio.Reader, head []byte, r engine.Request, to route) {
	body, refused := readCreate(client, br, r)
	if refused == nil && body == nil {
		return // the client has hung up
	}
	if refused == nil {
		body, refused = p.label(body, to)
	}
	if refused != nil {
		p.Warn(fmt.Errorf("create of a %s refused: %w", to.creates, refused.err))
		refused.send(client, r)
		return
	}
	at, ok := p.connect(client, r)
	if !ok {
		return
	}
	defer p.end(at)
	drop := []string{"Content-Length", "Transfer-Encoding", "Trailer", "Expect", "Connection", "Upgrade"}
	request := append(engine.Edit(head, drop, "Content-Length: "+strconv.Itoa(len(body)), closes), body...)
	switch answer, err := p.ask(at, request, to); {
	case errors.Is(err, errEnding):
		refusal{unavailable, err}.send(client, r)
	case err != nil:
		p.Warn(err)
		refusal{badGateway, err}.send(client, r)
	default:
		_, _ = client.Write(answer) // a client that has gone learns nothing
	}
}

// readCreate reads the body of a create. Both results are nil if the client has hung up.
func readCreate(client net.Conn, br *bufio.Reader, r engine.Request) ([]byte, *refusal) {
	if r.Continue {
		// The engine gets the body from us, so the client must be asked for it here.
		if _, err := io.WriteString(client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, nil
		}
	}
	body, err := r.ReadBody(br, maxCreate)
	switch {
	case errors.Is(err, engine.ErrBodyTooLong):
		return nil, &refusal{tooLarge, err}
	case errors.Is(err, engine.ErrMalformedChunk):
		return nil, &refusal{badRequest, err}
	case err != nil:
		return nil, nil
	case len(body) == 0:
		return nil, &refusal{badRequest, fmt.Errorf("labels cannot be added: %w", io.ErrUnexpectedEOF)}
	}
	return body, nil
}

// ask sends a create, and returns the engine's answer as it came. It is empty if the engine has hung up.
func (p *proxy) ask(at net.Conn, request []byte, to route) ([]byte, error) {
	if !p.gate.enter() {
		return nil, errEnding
	}
	defer p.gate.leave()
	_, _ = at.Write(request) // an engine that takes no more may say why
	var answer bytes.Buffer
	r, body, err := readAnswer(bufio.NewReader(io.TeeReader(at, &answer)))
	if err == nil && r.Status/100 != 2 {
		return answer.Bytes(), nil
	}
	var object struct{ ID string }
	// Without an id the object may exist. Its labels will show it.
	defer func() { p.Made(object.ID) }()
	if err != nil && answer.Len() > 0 {
		return nil, fmt.Errorf("the container engine's response cannot be understood: %w", err)
	}
	if err = json.Unmarshal(body, &object); err == nil && object.ID == "" {
		err = errNoID
	}
	if err != nil {
		p.Warn(fmt.Errorf("create of a %s: %w", to.creates, err))
	}
	return answer.Bytes(), nil
}

// readAnswer reads a response, after any interim ones.
func readAnswer(br *bufio.Reader) (r engine.Response, body []byte, err error) {
	if r, err = engine.ReadFinalHead(br); err != nil {
		return engine.Response{}, nil, err
	}
	body, err = r.ReadBody(br, maxCreated)
	return r, body, err
}
