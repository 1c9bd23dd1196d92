package proxy

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"mcp-tether/internal/http2"
)

// framed is a connection in HTTP/2 on both sides.
//
// Streams of gRPC pass frame by frame under their own numbers. Every other stream becomes a connection in HTTP/1.1 to
// this proxy, so that one place decides about creates. For streams that pass, client and engine grant each other the
// windows. The client's connection as a whole has a window that both kinds share, in both directions.
type framed struct {
	l                  *link
	clientIn, engineIn *http2.Reader
	client, engine     *http2.Writer

	mu             sync.Mutex // for what follows
	room           sync.Cond  // more may be sent to the client, or a stream has ended
	streams        map[uint32]*stream
	calls          int    // streams of gRPC among them
	last           uint32 // the highest stream of the client
	lastTranslated uint32 // the highest of those that became connections in HTTP/1.1

	window  int64 // what the client takes on the whole connection, in bytes
	lent    int64 // how much of that was used without the engine's knowledge
	initial int64 // what the client takes on a new stream
	granted int64 // what the client may still send on the whole connection
	open    int64 // what the client may send on a new stream
	extra   int64 // what the engine takes beyond that
	most    int   // how many streams the client may have open

	translated atomic.Int32 // connections in HTTP/1.1 that have not ended
}

// maxStreams is how many streams of one connection are served at once; net/http allows the same.
const maxStreams = 250

func newFramed(l *link) *framed {
	f := &framed{
		l: l, clientIn: http2.NewReader(l.fromClient), client: http2.NewWriter(l.client), streams: map[uint32]*stream{}, most: maxStreams,
		window: http2.InitialWindow, initial: http2.InitialWindow, granted: http2.InitialWindow, open: http2.InitialWindow,
	}
	f.room.L = &f.mu
	return f
}

// serve passes frames both ways until one side hangs up.
func (f *framed) serve() {
	f.l.ended = make(chan struct{})
	go func() {
		defer close(f.l.ended)
		if err := f.pass(f.engineIn, f.client, f.engine, f.fromEngine); errors.Is(err, http2.ErrMalformed) {
			f.l.p.Warn(fmt.Errorf("the container engine's response cannot be understood: %w", err))
			f.goAway(http2.CodeInternal, err)
		}
		f.end()
	}()
	if err := f.pass(f.clientIn, f.engine, f.client, f.fromClient); errors.Is(err, http2.ErrMalformed) {
		f.goAway(http2.CodeProtocol, err)
	}
	f.end()
}

// end ends both connections and every stream.
func (f *framed) end() {
	f.l.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		f.drop(s)
	}
}

// await waits as long as full returns true. Before it waits, it has what was collected for the client written. f.mu
// must be held.
func (f *framed) await(full func() bool) {
	for waiting := false; full(); waiting = true {
		if waiting {
			f.room.Wait()
			continue
		}
		f.mu.Unlock()
		_ = f.client.Start() // if the client has hung up, its reader knows
		f.mu.Lock()
	}
}

// drop ends a stream. Later frames on it are ignored. f.mu must be held.
func (f *framed) drop(s *stream) {
	if f.streams[s.id] != nil && !s.isTranslated() {
		f.calls--
	}
	delete(f.streams, s.id)
	s.abandon()
	f.room.Broadcast()
}

// pass reads frames and handles each, until a side hangs up or a frame cannot be understood. It writes the resulting
// frames before it waits for more, or when many are collected. For those to the other side pass may have to wait. For
// those back to this side it does not. A client that reads nothing before it has sent everything must not keep us from
// reading.
func (f *framed) pass(from *http2.Reader, to, back *http2.Writer, handle func(http2.Frame) error) error {
	for {
		if !from.Ready() || to.Full() || back.Full() {
			if err := errors.Join(to.Flush(), back.Start()); err != nil {
				return err
			}
		}
		frame, err := from.Next()
		if err != nil {
			return err
		}
		f.mu.Lock()
		err = handle(frame)
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// fromClient handles a frame of the client.
func (f *framed) fromClient(frame http2.Frame) error {
	switch frame.Type {
	case http2.TypeHeaders:
		return f.request(frame)
	case http2.TypeData:
		return f.upload(frame)
	case http2.TypeReset:
		return f.reset(frame)
	case http2.TypeWindowUpdate:
		return f.grant(frame)
	case http2.TypeSettings:
		if !frame.Ack() { // the engine's settings were acknowledged when they came
			f.engine.Settings(f.adopt(frame)...)
		}
	case http2.TypePing:
		f.engine.Pass(frame)
	}
	// GOAWAY is not passed on, as the client will hang up. An engine that has no stream of the client would do so at once.
	return nil
}

// known returns the stream of a frame, nil if it has ended. One that the client has not opened yet is an error.
func (f *framed) known(frame http2.Frame) (*stream, error) {
	if frame.Stream > f.last || frame.Stream%2 == 0 {
		return nil, fmt.Errorf("%w: frame of type %d on stream %d, which is not open", http2.ErrMalformed, frame.Type, frame.Stream)
	}
	return f.streams[frame.Stream], nil
}

// request handles the fields of a request, or its trailers.
func (f *framed) request(frame http2.Frame) error {
	if s := f.streams[frame.Stream]; s != nil {
		return f.trailers(s, frame)
	}
	if frame.Stream <= f.last || frame.Stream%2 == 0 {
		return fmt.Errorf("%w: stream %d is opened again", http2.ErrMalformed, frame.Stream)
	}
	f.last = frame.Stream
	r, err := parseFields(frame.Fields)
	if err != nil {
		return err
	}
	switch {
	case r.method == "CONNECT":
		f.client.Reset(frame.Stream, http2.CodeHTTP11)
	case f.calls+int(f.translated.Load()) >= f.most:
		f.client.Reset(frame.Stream, http2.CodeRefusedStream)
	case r.isCall():
		f.calls++
		f.streams[frame.Stream] = &stream{f: f, id: frame.Stream, requested: frame.EndStream()}
		f.engine.Headers(frame.Stream, frame.Fields, frame.EndStream())
		f.client.WindowUpdate(frame.Stream, f.extra)
	default:
		return f.translate(frame, r)
	}
	return nil
}

func (f *framed) trailers(s *stream, frame http2.Frame) error {
	if s.requested || !frame.EndStream() {
		return fmt.Errorf("%w: stream %d has two heads", http2.ErrMalformed, s.id)
	}
	for _, field := range frame.Fields {
		if field.IsPseudo() || !isRegular(field) {
			return fmt.Errorf("%w: field %.80q", http2.ErrMalformed, field.Name)
		}
	}
	if !s.isTranslated() {
		f.engine.Headers(s.id, frame.Fields, true)
		return f.requestEnded(s)
	}
	return s.receive(nil, 0, true) // in HTTP/1.1 no engine reads them
}

// requestEnded notes that the client has sent everything on a stream.
func (f *framed) requestEnded(s *stream) error {
	s.requested = true
	if s.responded {
		f.drop(s)
	}
	return nil
}

// upload handles DATA of the client.
func (f *framed) upload(frame http2.Frame) error {
	n := int64(len(frame.Payload))
	s, err := f.known(frame)
	if err != nil {
		return err
	}
	if f.granted -= n; f.granted < 0 {
		return errWindow(0)
	}
	switch {
	case s == nil:
		f.giveBack(n)
		return nil
	case s.requested:
		return fmt.Errorf("%w: data behind the end of stream %d", http2.ErrMalformed, s.id)
	case s.isTranslated():
		return s.receive(frame.Data(), n, frame.EndStream())
	}
	f.engine.Pass(frame)
	if frame.EndStream() {
		return f.requestEnded(s)
	}
	return nil
}

func errWindow(stream uint32) error {
	return fmt.Errorf("%w: more data on stream %d than the window allows", http2.ErrMalformed, stream)
}

// giveBack lets the client send more on the connection as a whole. f.mu must be held.
func (f *framed) giveBack(n int64) {
	f.granted += n
	f.client.WindowUpdate(0, n)
}

// reset handles a client's reset of a stream.
func (f *framed) reset(frame http2.Frame) error {
	s, err := f.known(frame)
	if s == nil {
		return err
	}
	if !s.isTranslated() {
		f.engine.Pass(frame)
	}
	f.drop(s)
	return nil
}

// grant handles an enlarged window of the client.
func (f *framed) grant(frame http2.Frame) error {
	n := int64(frame.Number() & http2.MaxWindow)
	if frame.Stream == 0 {
		if f.window += n; f.window > http2.MaxWindow {
			return errWindow(0)
		}
		// The engine is not granted what our own responses have used.
		kept := min(n, f.lent)
		f.lent -= kept
		f.engine.WindowUpdate(0, n-kept)
		f.room.Broadcast()
		return nil
	}
	s, err := f.known(frame)
	switch {
	case s == nil:
		return err
	case !s.isTranslated():
		f.engine.Pass(frame)
		return nil
	}
	if s.window += n; s.window > http2.MaxWindow {
		return errWindow(s.id)
	}
	f.room.Broadcast()
	return nil
}

// adopt takes over the client's settings, and returns those that the engine must know. The sizes of frames and tables
// are settled between each side and us.
func (f *framed) adopt(frame http2.Frame) (pass []http2.Setting) {
	for _, set := range frame.Settings() {
		switch set.ID {
		case http2.SettingInitialWindow:
			for _, s := range f.streams {
				s.window += int64(set.Value) - f.initial
			}
			f.initial = int64(set.Value)
			f.room.Broadcast()
		case http2.SettingMaxFields, http2.SettingMaxStreams:
		default:
			continue
		}
		pass = append(pass, set)
	}
	return pass
}

// answer takes over the engine's settings, and tells the client what it may do.
func (f *framed) answer(hello http2.Frame) {
	initial := int64(http2.InitialWindow)
	for _, set := range hello.Settings() {
		switch set.ID {
		case http2.SettingMaxStreams:
			f.most = int(min(set.Value, maxStreams))
		case http2.SettingInitialWindow:
			initial = int64(set.Value)
		}
	}
	f.open = min(initial, http2.InitialWindow)
	f.extra = initial - f.open
	f.engine.AckSettings()
	f.client.Settings(
		http2.Setting{ID: http2.SettingMaxStreams, Value: uint32(f.most)},
		http2.Setting{ID: http2.SettingInitialWindow, Value: uint32(f.open)},
		http2.Setting{ID: http2.SettingMaxFields, Value: http2.MaxFields})
}
