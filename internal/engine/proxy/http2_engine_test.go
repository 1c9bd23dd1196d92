package proxy

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// speaksHTTP2 reports whether a connection to the engine is in HTTP/2. Each stream that is no call has another in
// HTTP/1.1.
func speaksHTTP2(c *peer) bool {
	b, err := c.br.Peek(4)
	return err == nil && string(b) == "PRI "
}

// engineFramer is an engine that says frames one by one. It returns when the client has said its preface.
func engineFramer(c *peer, settings ...http2.Setting) *framer {
	c.hear(http2.ClientPreface)
	f := &framer{Framer: http2.NewFramer(c.Conn, c.br), c: c}
	f.enc = hpack.NewEncoder(&f.buf)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings(settings...)
	return f
}

func (f *framer) respond(stream uint32, end bool, all ...string) {
	block := f.block(all...)
	first := block[:min(len(block), 1<<14)]
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(first) == len(block), EndStream: end})
	for block = block[len(first):]; len(block) > 0; {
		part := block[:min(len(block), 1<<14)]
		block = block[len(part):]
		_ = f.WriteContinuation(stream, len(block) == 0, part)
	}
}

// grpc opens a call.
func (f *framer) grpc(stream uint32, end bool) {
	f.request(stream, end, "POST", "/a.B/C", "content-type", "application/grpc", "te", "trailers")
}

// What an engine says on a call reaches the client, whatever the sizes of tables, frames and windows are on either side.
func TestHTTP2WhatAnEngineSays(t *testing.T) {
	s := newScene(t, func(c *peer) {
		if !speaksHTTP2(c) {
			return // for stream 1
		}
		f := engineFramer(c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20},
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		head, ok := f.next(http2.FrameHeaders).(*http2.MetaHeadersFrame)
		if !ok || head.StreamID != 3 || head.PseudoValue("path") != "/a.B/C" || head.RegularFields()[1].Name != "te" {
			t.Error("the head:", head)
		}
		f.respond(3, false, ":status", "200", "long", strings.Repeat("v", 40000))
		_ = f.WriteDataPadded(3, false, []byte("padded"), make([]byte, 7))
		_ = f.WriteGoAway(2, http2.ErrCodeNo, []byte("good-bye")) // not for stream 3, and 1 is none of the engine's
	})
	f := s.framer()
	f.SetMaxReadFrameSize(1 << 14)
	settings := map[http2.SettingID]uint32{}
	if frame, ok := f.next(http2.FrameSettings).(*http2.SettingsFrame); ok {
		_ = frame.ForeachSetting(func(set http2.Setting) error { settings[set.ID] = set.Val; return nil })
	}
	if settings[http2.SettingMaxConcurrentStreams] != 3 || settings[http2.SettingInitialWindowSize] != 65535 || len(settings) != 3 {
		t.Error(settings)
	}
	f.request(1, true, "POST", "/containers/x/attach")
	for frame := f.next(http2.FrameData); frame != nil && !frame.(*http2.DataFrame).StreamEnded(); frame = f.next(http2.FrameData) {
		continue
	}
	f.grpc(3, false)
	if w, ok := f.next(http2.FrameWindowUpdate).(*http2.WindowUpdateFrame); !ok || w.StreamID != 3 || w.Increment != 1<<20-65535 {
		t.Error("the rest of the window:", w)
	}
	if head, ok := f.next(http2.FrameHeaders).(*http2.MetaHeadersFrame); !ok || len(head.RegularFields()[0].Value) != 40000 {
		t.Error("the response:", head)
	}
	if d, ok := f.next(http2.FrameData).(*http2.DataFrame); !ok || string(d.Data()) != "padded" || d.Length != 14 {
		t.Error("data:", d)
	}
	if r, ok := f.next(http2.FrameRSTStream).(*http2.RSTStreamFrame); !ok || r.StreamID != 3 || r.ErrCode != http2.ErrCodeRefusedStream {
		t.Error("a call that is not served:", r)
	}
	if g, ok := f.next(http2.FrameGoAway).(*http2.GoAwayFrame); !ok || g.LastStreamID != 2 || string(g.DebugData()) != "good-bye" {
		t.Error("the end:", g)
	}
}

// If the engine cannot be understood, the connection ends, and the client is told so.
func TestHTTP2EngineThatTalksRubbish(t *testing.T) {
	for name, say := range map[string]func(f *framer){
		"a stream of its own": func(f *framer) { f.respond(2, true, ":status", "200") },
		"a stream of ours":    func(f *framer) { f.respond(1, true, ":status", "200") },
		"a stream to come":    func(f *framer) { _ = f.WriteData(99, true, nil) },
		"a push": func(f *framer) {
			_ = f.WritePushPromise(http2.PushPromiseParam{StreamID: 3, PromiseID: 4, EndHeaders: true})
		},
		"a window that changes":   func(f *framer) { _ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}) },
		"a frame that is too big": func(f *framer) { _ = f.WriteData(3, true, make([]byte, 1<<15)) },
		"HTTP/1.1":                func(f *framer) { f.c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") },
	} {
		s := newScene(t, func(c *peer) {
			if !speaksHTTP2(c) {
				_, _ = io.Copy(io.Discard, c.br) // the request of stream 1
				return
			}
			f := engineFramer(c)
			f.AllowIllegalWrites = true
			f.next(http2.FrameHeaders)
			say(f)
			_, _ = io.Copy(io.Discard, c.br)
		})
		f := s.framer()
		f.request(1, true, "GET", "/hang")
		f.grpc(3, false)
		if g, ok := f.next(http2.FrameGoAway).(*http2.GoAwayFrame); !ok || g.ErrCode != http2.ErrCodeInternal {
			t.Errorf("%s: %v", name, g)
		}
	}
}

// A client that sends all that it may before it reads anything is not held up by what it has not read.
func TestHTTP2ClientThatReadsLate(t *testing.T) {
	const all = 8 << 20 // more than sockets hold
	s := newScene(t, func(c *peer) {
		f := engineFramer(c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: all})
		_ = f.WriteWindowUpdate(0, all)
		f.next(http2.FrameHeaders)
		f.respond(1, false, ":status", "200")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for n := 0; n < all; n += 1 << 14 {
				_ = f.WriteData(1, false, make([]byte, 1<<14))
			}
		}()
		got := 0
		for got < all {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Error(err)
				break
			}
			if d, ok := frame.(*http2.DataFrame); ok {
				got += len(d.Data())
			}
		}
		<-sent
		f.respond(1, true, "grpc-status", "0")
		_, _ = io.Copy(io.Discard, c.br)
	})
	f := s.framer()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: all})
	_ = f.WriteWindowUpdate(0, all)
	f.grpc(1, false)
	// The stream's window and the connection's come one after the other.
	for open := map[uint32]bool{}; len(open) < 2; {
		w, ok := f.next(http2.FrameWindowUpdate).(*http2.WindowUpdateFrame)
		if !ok || w.StreamID > 1 {
			t.Fatal(w)
		}
		open[w.StreamID] = true
	}
	for n := 0; n < all; n += 1 << 14 {
		_ = f.WriteData(1, n+1<<14 == all, make([]byte, 1<<14))
	}
	got := 0
	for {
		frame := f.next(http2.FrameData, http2.FrameHeaders)
		if d, ok := frame.(*http2.DataFrame); ok {
			got += len(d.Data())
			continue
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); frame == nil || ok && h.StreamEnded() {
			break
		}
	}
	if got != all {
		t.Errorf("%d bytes", got)
	}
}
