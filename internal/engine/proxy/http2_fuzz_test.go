package proxy

import (
	"bytes"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mcp-tether/internal/testkit"
)

// frames collects what a client says.
func frames(say func(f *framer)) []byte {
	var out bytes.Buffer
	f := &framer{Framer: http2.NewFramer(&out, nil)}
	f.AllowIllegalWrites = true
	f.enc = hpack.NewEncoder(&f.buf)
	say(f)
	return out.Bytes()
}

// hides returns requests that one reader may take for gRPC and the engine for a create, or the other way round.
func hides() (all [][]byte) {
	const path = "/containers/create"
	grpc := []string{"content-type", "application/grpc"}
	for _, say := range []func(f *framer){
		func(f *framer) { f.request(1, true, "POST", path, grpc...) },
		func(f *framer) { f.request(1, true, "POST", "/v1.41/build", grpc...) },
		func(f *framer) {
			f.request(1, true, "POST", "/moby.buildkit.v1.Control/../../containers/create", grpc...)
		},
		func(f *framer) { f.request(1, true, "POST", "http://a.B/containers/create", grpc...) },
		func(f *framer) { f.request(1, true, "POST", "/a.B/C", "content-type", "application/grp") },
		func(f *framer) {
			f.request(1, true, "POST", "/a.B/C", "content-type", "a/b", "content-type", "application/grpc")
		},
		func(f *framer) { f.request(1, true, "POST", "/a.B/C", "content-type", "Application/grpc") },
		func(f *framer) { f.request(1, true, "POST", "/a.B/C", "content-type", " application/grpc") },
		func(f *framer) {
			f.request(1, true, "POST", "/a.B/C", "trailer", "content-type", "content-type", "application/grpc")
		},
		func(f *framer) {
			f.request(1, false, "POST", "/a.B/C", grpc...)
			_ = f.WriteData(1, false, []byte("{}"))
			f.fields(":path", path, "content-type", "application/json")
		},
		func(f *framer) {
			f.request(1, false, "POST", "/a.B/C", grpc...)
			f.request(3, false, "POST", path, "content-length", "2")
			_ = f.WriteDataPadded(3, true, []byte("{}"), make([]byte, 9))
			_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
			f.request(5, true, "POST", path)
		},
		func(f *framer) {
			block := f.block(":method", "POST", ":scheme", "http", ":path", "/a.B/C", "content-type", "application/grpc")
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:3], Priority: http2.PriorityParam{Weight: 1}, PadLength: 2})
			_ = f.WriteContinuation(1, true, block[3:])
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0xbe, 0xbf, 0xc0, 0x83}, EndHeaders: true})
		},
	} {
		all = append(all, frames(say))
	}
	return all
}

// Whatever a client says in HTTP/2, no request for the engine's API reaches it in HTTP/2, and nothing is created
// without our label.
func FuzzHTTP2(f *testing.F) {
	for _, seed := range hides() {
		f.Add(seed)
	}
	e, socket := newFuzzed(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		speak(c, said)
		if _, hidden := e.take(); len(hidden) > 0 {
			t.Errorf("%q: %v", said, hidden)
		}
	})
}

// speak says frames, and hangs up when all of them were read.
func speak(c net.Conn, said []byte) {
	begin := frames(func(f *framer) { _ = f.WriteSettings() })
	mark := [8]byte{'t', 'h', 'e', ' ', 'e', 'n', 'd', '!'}
	end := frames(func(f *framer) { _ = f.WritePing(false, mark) })
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.Write(bytes.Join([][]byte{[]byte(http2.ClientPreface), begin, said, missing(said), end}, nil))
	}()
	fr := http2.NewFramer(nil, c)
	for {
		frame, err := fr.ReadFrame()
		if err != nil || frame.Header().Type == http2.FrameGoAway {
			break
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.Data == mark {
			break
		}
	}
	_ = c.Close()
	<-written
}

// missing returns what the last frame lacks. Without it, the next frame would be taken for it.
func missing(said []byte) []byte {
	const head = 9
	all := append(bytes.Clone(said), make([]byte, head)...)
	at := 0
	for at < len(said) {
		at += head + int(all[at])<<16 + int(all[at+1])<<8 + int(all[at+2])
	}
	return make([]byte, at-len(said))
}

// The control: without the proxy the engine's API is asked in most of these cases.
func TestHidesReachTheAPIWithoutTheProxy(t *testing.T) {
	e := newGoEngine(t)
	n := 0
	for _, said := range hides() {
		c, err := e.dial()
		if err != nil {
			t.Fatal(err)
		}
		speak(c, said)
		if _, hidden := e.take(); len(hidden) > 0 {
			n++
		}
	}
	if all := len(hides()); n < all/3 {
		t.Errorf("%d of %d", n, all)
	}
	t.Log(n, len(hides()))
}
