package proxy

import (
	"fmt"

	"mcp-tether/internal/http2"
)

// fromEngine handles a frame of the engine.
func (f *framed) fromEngine(frame http2.Frame) error {
	s := f.streams[frame.Stream]
	if s != nil && s.isTranslated() || frame.Stream > f.last || frame.Stream != 0 && frame.Stream%2 == 0 {
		return fmt.Errorf("%w: frame of type %d on stream %d, which is none of the engine's", http2.ErrMalformed, frame.Type, frame.Stream)
	}
	switch frame.Type {
	case http2.TypeHeaders:
		if s != nil {
			f.client.Headers(s.id, frame.Fields, frame.EndStream())
			f.responseEnded(s, frame)
		}
	case http2.TypeData:
		f.download(s, frame)
	case http2.TypeReset:
		if s != nil {
			f.client.Pass(frame)
			f.drop(s)
		}
	case http2.TypeWindowUpdate:
		f.allow(s, frame)
	case http2.TypeSettings:
		return f.changed(frame)
	case http2.TypePing:
		f.client.Pass(frame)
	case http2.TypeGoAway:
		f.leave(frame)
	}
	return nil
}

// responseEnded notes that the engine has sent everything on a stream, if the frame is its last one.
func (f *framed) responseEnded(s *stream, frame http2.Frame) {
	if !frame.EndStream() {
		return
	}
	if s.responded = true; s.requested {
		f.drop(s)
	}
}

// download passes on DATA of the engine. It waits until the client takes it: our own responses may have used what the
// engine still counts on.
func (f *framed) download(s *stream, frame http2.Frame) {
	n := int64(len(frame.Payload))
	f.await(func() bool { return s != nil && n > f.window && !s.gone })
	if s == nil || s.gone {
		f.engine.WindowUpdate(0, n) // the client does not get these bytes
		return
	}
	f.window -= n
	f.client.Pass(frame)
	f.responseEnded(s, frame)
}

// allow passes on an enlarged window of the engine.
func (f *framed) allow(s *stream, frame http2.Frame) {
	switch {
	case frame.Stream == 0:
		f.granted += int64(frame.Number() & http2.MaxWindow)
		f.client.Pass(frame)
	case s != nil:
		f.client.Pass(frame)
	}
}

// changed handles settings of the engine after its first ones. No engine changes the windows.
func (f *framed) changed(frame http2.Frame) error {
	if frame.Ack() {
		f.client.AckSettings() // the client's were passed on
		return nil
	}
	for _, set := range frame.Settings() {
		if set.ID == http2.SettingInitialWindow && int64(set.Value) != f.open+f.extra {
			return fmt.Errorf("%w: a window that changes", http2.ErrMalformed)
		}
	}
	f.engine.AckSettings()
	return nil
}

// leave tells the client that the engine takes no more streams. Streams that the engine does not know of are served to
// their end.
func (f *framed) leave(frame http2.Frame) {
	last := frame.Number() & http2.MaxWindow
	for _, s := range f.streams {
		if s.id > last && !s.isTranslated() {
			f.client.Reset(s.id, http2.CodeRefusedStream)
			f.drop(s)
		}
	}
	f.client.GoAway(max(last, f.lastTranslated), frame.Code(), frame.Payload[8:])
}
