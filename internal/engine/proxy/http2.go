package proxy

import (
	"errors"
	"fmt"
	"io"
	"time"

	"mcp-tether/internal/http1"
	"mcp-tether/internal/http2"
)

// settingsTimeout is how long an engine may take to send the first frame of a connection in HTTP/2. It has nothing else to do
// before that.
const settingsTimeout = 30 * time.Second

// http2 serves a client that speaks HTTP/2 from the start.
func (l *link) http2() {
	l.meter.release()
	const rest = "SM\r\n\r\n" // of the preface, whose beginning looks like a head
	b, err := l.fromClient.Peek(len(rest))
	if err != nil || string(b) != rest {
		l.refuse(http1.Request{}, badRequest, http1.ErrHTTP2)
		return
	}
	_, _ = l.fromClient.Discard(len(rest)) // these bytes are there
	f := newFramed(l)
	hello, err := f.clientIn.Next()
	if err == nil && (hello.Type != http2.TypeSettings || hello.Ack()) {
		err = fmt.Errorf("%w: no settings at the beginning", http2.ErrMalformed)
	}
	if err != nil {
		f.goAway(http2.CodeProtocol, err)
		return
	}
	if err := l.dial(); err != nil {
		f.unreachable(err)
		return
	}
	f.engine, f.engineIn = http2.NewWriter(l.engine), http2.NewReader(l.fromEngine)
	switch err = f.greet(hello); {
	case errors.Is(err, errHTTP1):
		l.passOn()
	case err != nil:
		f.unreachable(fmt.Errorf("cannot reach the container engine: %w", err))
	default:
		f.serve()
	}
}

// errHTTP1 says that an engine speaks HTTP/1.1 only.
var errHTTP1 = errors.New("the engine does not speak HTTP/2")

// greet begins HTTP/2 with the engine, and lets the client know what both may do. The engine gets nothing more from the
// client before it has answered in HTTP/2.
func (f *framed) greet(hello http2.Frame) error {
	f.engine.Preface()
	settings := f.adopt(hello)
	f.engine.Settings(append(settings, http2.Setting{ID: http2.SettingEnablePush})...)
	if err := errors.Join(f.engine.Flush(), f.l.engine.SetReadDeadline(time.Now().Add(settingsTimeout))); err != nil {
		return err
	}
	b, err := f.l.fromEngine.Peek(http2.HeadLen)
	if err != nil {
		if helper, ok := f.l.engine.(interface{ Stderr() string }); ok {
			if said := helper.Stderr(); said != "" {
				err = errors.New(said)
			}
		}
		if len(b) == 0 {
			return err
		}
	}
	if len(b) < http2.HeadLen || http2.Type(b[3]) != http2.TypeSettings {
		return errHTTP1
	}
	hello, err = f.engineIn.Next()
	if err == nil {
		err = f.l.engine.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	f.answer(hello)
	return f.client.Flush()
}

// passOn passes an engine's refusal of HTTP/2 on to the client, unchanged. It passes nothing on from the client.
func (l *link) passOn() {
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		_ = http1.Stream().Copy(l.client, l.fromEngine, nil) // whichever side hung up, it is over
		linger(l.client)
		l.close()
	}()
	_, _ = io.Copy(io.Discard, l.fromClient)
}

// unreachable tells the client that there is no engine. It answers the first request, because a client that gets an
// error earlier may not say why it failed.
func (f *framed) unreachable(err error) {
	f.l.p.Warn(err)
	f.client.Settings()
	if f.client.Flush() != nil || f.l.client.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	for {
		if head, err := f.clientIn.Next(); err != nil || head.Type == http2.TypeHeaders {
			break
		}
	}
	f.goAway(http2.CodeInternal, err)
}

// goAway says why the connection ends.
func (f *framed) goAway(code http2.Code, err error) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	f.client.GoAway(last, code, []byte("mcp-tether: "+err.Error()))
	if f.client.Flush() == nil {
		linger(f.l.client)
	}
}
