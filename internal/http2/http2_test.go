package http2

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func reader(b []byte) *Reader { return NewReader(bufio.NewReaderSize(bytes.NewReader(b), 32<<10)) }

// theirs returns the library's reader of what we have written.
func theirs(b []byte) *http2.Framer {
	fr := http2.NewFramer(io.Discard, bytes.NewReader(b))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return fr
}

func same(ours []Field, theirs []hpack.HeaderField) bool {
	return slices.EqualFunc(ours, theirs, func(f Field, g hpack.HeaderField) bool { return hpack.HeaderField(f) == g })
}

// What the library encodes, with its table that changes, is decoded without a change.
func TestDecoder(t *testing.T) {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	plain, err := unhuffman(hpack.AppendHuffmanString(nil, string(all[:])))
	if err != nil || string(plain) != string(all[:]) {
		t.Errorf("%q, %v", plain, err)
	}
	for n := range 1 << 16 { // every possible end of a string
		b := []byte{byte(n >> 8), byte(n)}
		want, wantErr := hpack.HuffmanDecodeToString(b)
		if got, err := unhuffman(b); (err == nil) != (wantErr == nil) || err == nil && string(got) != want {
			t.Fatalf("% x: %q, %v instead of %q, %v", b, got, err, want, wantErr)
		}
	}
	var b bytes.Buffer
	e, d := hpack.NewEncoder(&b), newDecoder()
	for i := range 2000 {
		var fields []hpack.HeaderField
		for j := range i % 7 {
			fields = append(fields, hpack.HeaderField{Name: strings.Repeat("n", i*j%150+1), Value: strings.Repeat(string(rune('a'+i%5)), i%1000), Sensitive: i%11 == 1})
		}
		fields = append(fields, hpack.HeaderField(staticTable[i%len(staticTable)]))
		if i%97 == 5 {
			e.SetMaxDynamicTableSize(uint32(i * 31 % (tableSize + 1)))
		}
		b.Reset()
		for _, f := range fields {
			_ = e.WriteField(f)
		}
		if got, err := d.decode(b.Bytes(), MaxFields); err != nil || !same(got, fields) {
			t.Fatalf("%d: %v, %v instead of %v", i, got, err, fields)
		}
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	long := strings.Repeat("v", 40000) // in three frames
	fields := []Field{{Name: ":method", Value: "POST"}, {Name: "authorization", Value: long, Sensitive: true}, {Name: strings.Repeat("n", 127)}, {Name: "x", Value: strings.Repeat("y", 300)}}
	w.Settings(Setting{SettingMaxStreams, 7}, Setting{SettingInitialWindow, 1})
	w.AckSettings()
	w.Headers(1, fields, true)
	w.Data(1, []byte("data"), false)
	w.Data(1, nil, true)
	w.WindowUpdate(3, 0)
	w.WindowUpdate(3, 5)
	w.Reset(3, CodeCalm)
	w.GoAway(9, CodeHTTP11, []byte("why"))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fr := theirs(b.Bytes())
	var got []string
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			break
		}
		if m, ok := f.(*http2.MetaHeadersFrame); ok && (!same(fields, m.Fields) || !m.StreamEnded()) {
			t.Errorf("their fields: %.200v", m.Fields)
		}
		got = append(got, f.Header().Type.String())
	}
	if want := "SETTINGS SETTINGS HEADERS DATA DATA WINDOW_UPDATE RST_STREAM GOAWAY"; strings.Join(got, " ") != want {
		t.Errorf("they read %q", got)
	}
	r := reader(b.Bytes())
	for i, want := range []Type{TypeSettings, TypeSettings, TypeHeaders, TypeData, TypeData, TypeWindowUpdate, TypeReset, TypeGoAway} {
		f, err := r.Next()
		if err != nil || f.Type != want {
			t.Errorf("frame %d: %v, %v", i, f, err)
		}
		if f.Type == TypeHeaders && !reflect.DeepEqual(f.Fields, fields) {
			t.Errorf("our fields: %.200v", f.Fields)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error("at the end:", err)
	}
}

// An error of the destination is reported, and nothing is collected after it.
func TestWriterThatFails(t *testing.T) {
	pr, pw := io.Pipe()
	_ = pr.Close()
	w := NewWriter(pw)
	w.AckSettings()
	if w.Flush() == nil || w.Start() == nil {
		t.Error("no error")
	}
	for range 100 {
		w.Data(1, make([]byte, MaxPayload), false)
		_ = w.Start()
	}
	if w.Full() {
		t.Error("bytes wait for nobody")
	}
}

// Start does not wait while another goroutine writes, but Flush does.
func TestStartDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	w := NewWriter(pw)
	w.AckSettings()
	flushed := make(chan error)
	go func() { flushed <- w.Flush() }()
	first := make([]byte, 1)
	if _, err := io.ReadFull(pr, first); err != nil { // so Flush is writing
		t.Fatal(err)
	}
	w.AckSettings()
	if err := w.Start(); err != nil {
		t.Error(err)
	}
	rest := make([]byte, 2*HeadLen-1)
	if _, err := io.ReadFull(pr, rest); err != nil || rest[HeadLen+2] != byte(TypeSettings) {
		t.Errorf("% x, %v", rest, err)
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
}

// frame returns a frame of any kind.
func frame(t Type, flags byte, stream uint32, payload string) string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteRawFrame(http2.FrameType(t), http2.Flags(flags), stream, []byte(payload))
	return b.String()
}

func TestMalformedFrames(t *testing.T) {
	head := frame(TypeHeaders, flagEndHeaders, 1, "\x82")
	for name, said := range map[string]string{
		"long frame":                  frame(TypeData, 0, 1, strings.Repeat("x", MaxPayload+1)),
		"data on no stream":           frame(TypeData, 0, 0, "x"),
		"padding without room":        frame(TypeData, flagPadded, 1, "\x01"),
		"padding without length":      frame(TypeData, flagPadded, 1, ""),
		"fields on no stream":         frame(TypeHeaders, flagEndHeaders, 0, "\x82"),
		"fields with wrong padding":   frame(TypeHeaders, flagEndHeaders|flagPadded, 1, "\x05\x82"),
		"fields with half a priority": frame(TypeHeaders, flagEndHeaders|flagPriority, 1, "\x00\x00"),
		"fields that are cut off":     frame(TypeHeaders, flagEndHeaders, 1, "\x00\x05a"),
		"fields of no table":          frame(TypeHeaders, flagEndHeaders, 1, "\xff\x70"),
		"a frame between fields":      frame(TypeHeaders, 0, 1, "\x82") + frame(TypePing, 0, 0, "12345678"),
		"an unknown one between":      frame(TypeHeaders, 0, 1, "\x82") + frame(99, 0, 1, "") + frame(TypeContinuation, flagEndHeaders, 1, ""),
		"fields of another stream":    frame(TypeHeaders, 0, 1, "\x82") + frame(TypeContinuation, flagEndHeaders, 3, ""),
		"continuation of nothing":     head + frame(TypeContinuation, flagEndHeaders, 1, "\x82"),
		"settings on a stream":        frame(TypeSettings, 0, 1, ""),
		"settings of a wrong length":  frame(TypeSettings, 0, 0, "12345"),
		"settings with an ack":        frame(TypeSettings, flagAck, 0, "\x00\x03\x00\x00\x00\x01"),
		"a window beyond all":         frame(TypeSettings, 0, 0, "\x00\x04\x80\x00\x00\x00"),
		"push":                        frame(TypePushPromise, flagEndHeaders, 1, "\x00\x00\x00\x02\x82"),
		"a wrong ping":                frame(TypePing, 0, 0, "1234567"),
		"ping on a stream":            frame(TypePing, 0, 1, "12345678"),
		"a wrong reset":               frame(TypeReset, 0, 1, "123"),
		"a grant of nothing":          frame(TypeWindowUpdate, 0, 1, "\x80\x00\x00\x00"),
		"a short good-bye":            frame(TypeGoAway, 0, 0, "1234567"),
		"priority of a wrong length":  frame(TypePriority, 0, 1, "1234"),
		// 64 references to one field of four kilobytes are more than a list may have.
		"a bomb":             frame(TypeHeaders, flagEndHeaders, 1, "\x40\x01a\x7f\xa1\x1e"+strings.Repeat("v", 4000)+strings.Repeat("\xbe", 64)),
		"no end":             frame(TypeHeaders, 0, 1, "\x82") + strings.Repeat(frame(TypeContinuation, 0, 1, ""), 20000),
		"no end of one text": frame(TypeHeaders, 0, 1, "\x00\x01a\x7f\xff\xff\x7f") + strings.Repeat(frame(TypeContinuation, 0, 1, strings.Repeat("x", MaxPayload)), 200),
	} {
		if err := drain(reader([]byte(said))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, said := range []string{head[:5], head[:9], frame(TypeHeaders, 0, 1, "\x82")} {
		if err := drain(reader([]byte(said))); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) || errors.Is(err, ErrMalformed) {
			t.Errorf("% x: %v", said, err)
		}
	}
}

func drain(r *Reader) error {
	for {
		if _, err := r.Next(); err != nil {
			return err
		}
	}
}

// What the RFC tells a reader to ignore is ignored. Padding and priority are no part of the fields.
func TestWhatIsIgnored(t *testing.T) {
	r := reader([]byte(frame(TypePriority, 0, 1, "12345") + frame(99, 0xff, 7, "x") +
		frame(TypeHeaders, flagPadded|flagPriority, 1, "\x03\x00\x00\x00\x00\x10\x82"+"pad") + frame(TypeContinuation, flagEndHeaders, 1, "\x84") +
		frame(TypeData, flagPadded, 1, "\x02xyzab")))
	f, err := r.Next()
	if err != nil || len(f.Fields) != 2 || f.Fields[1].Value != "/" {
		t.Errorf("%v, %v", f, err)
	}
	f, err = r.Next()
	if err != nil || string(f.Data()) != "xyz" || len(f.Payload) != 6 {
		t.Errorf("%v, %v", f, err)
	}
}

// Ready tells whether a whole frame has come, however it does.
func TestReady(t *testing.T) {
	pr, pw := io.Pipe()
	r := NewReader(bufio.NewReaderSize(pr, 32<<10))
	one := frame(TypePing, 0, 0, "12345678")
	go func() { _, _ = io.WriteString(pw, one+one+one[:12]) }()
	for _, want := range []bool{true, false} {
		if _, err := r.Next(); err != nil || r.Ready() != want {
			t.Errorf("%v, %v", err, want)
		}
	}
}

// The library accepts whatever we accept, and reads it in the same way. It may accept more.
func FuzzReader(f *testing.F) {
	fields := func(all ...string) string {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(all); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
		}
		return b.String()
	}
	request := fields(":method", "POST", ":scheme", "http", ":path", "/containers/create", ":authority", "docker", "content-type", "application/grpc")
	for _, seed := range []string{
		frame(TypeSettings, 0, 0, "\x00\x03\x00\x00\x00\x01") + frame(TypeHeaders, flagEndHeaders, 1, request) + frame(TypeData, flagEndStream, 1, "{}"),
		frame(TypeHeaders, flagPadded|flagPriority, 1, "\x03\x00\x00\x00\x00\x10"+request[:20]+"pad") + frame(TypeContinuation, flagEndHeaders, 1, request[20:]),
		frame(TypeHeaders, flagEndHeaders, 1, request) + frame(TypeHeaders, flagEndHeaders|flagEndStream, 3, "\xbe\xbf\xc0\x20"),
		frame(TypeHeaders, flagEndHeaders, 1, request) + frame(TypeHeaders, flagEndHeaders|flagEndStream, 3, "\x3f\xe1\x01\x3f\xe1\x01\xbe"),
		frame(TypeHeaders, flagEndHeaders, 1, request) + frame(TypeHeaders, flagEndHeaders|flagEndStream, 3, "\x20\x3f\xe1\x01\x82"),
		frame(TypeData, flagPadded, 1, "\x02xyzab") + frame(TypeWindowUpdate, 0, 0, "\x80\x00\x00\x01") + frame(TypeReset, 0, 1, "1234") + frame(TypeGoAway, 0, 0, "12345678why"),
		frame(TypePing, flagAck, 0, "12345678") + frame(99, 1, 0x80000001, "x") + frame(TypePriority, 0, 1, "12345"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		fr := theirs(withoutExtensions(said))
		r := reader(said)
		for {
			ours, err := r.Next()
			if err != nil {
				return
			}
			compare(t, ours, fr)
		}
	})
}

// withoutExtensions changes the type of each frame that the RFC does not know to one that the library does not know
// either.
func withoutExtensions(said []byte) []byte {
	out := bytes.Clone(said)
	for rest := out; len(rest) >= HeadLen; rest = rest[min(len(rest), HeadLen+lengthOf(rest)):] {
		if rest[3] > byte(TypeContinuation) {
			rest[3] = 99
		}
	}
	return out
}

func compare(t *testing.T, ours Frame, fr *http2.Framer) {
	t.Helper()
	f, err := fr.ReadFrame()
	for err == nil && (f.Header().Type == http2.FramePriority || byte(f.Header().Type) > byte(TypeContinuation)) {
		f, err = fr.ReadFrame()
	}
	var bad http2.StreamError
	if ours.Type == TypeHeaders && (errors.As(err, &bad) && bad.StreamID == ours.Stream || f != nil && errors.Is(err, http2.ConnectionError(http2.ErrCodeProtocol))) {
		t.Skip("the fields make no message, which is for the caller to find")
	}
	if err != nil || Type(f.Header().Type) != ours.Type || f.Header().StreamID != ours.Stream {
		t.Fatalf("we read %v, they %v, %v", ours, f, err)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if !same(ours.Fields, f.Fields) || f.StreamEnded() != ours.EndStream() {
			t.Fatalf("we read %v, they %v", ours.Fields, f.Fields)
		}
	case *http2.DataFrame:
		if !bytes.Equal(f.Data(), ours.Data()) || f.StreamEnded() != ours.EndStream() {
			t.Fatalf("we read %q, they %q", ours.Data(), f.Data())
		}
	case *http2.WindowUpdateFrame:
		if f.Increment != ours.Number()&MaxWindow {
			t.Fatalf("we read %v, they %v", ours, f)
		}
	}
}
