package http2

import (
	"encoding/binary"
	"io"
	"sync"
)

// maxPending is how much may be pending before the methods that may wait for the other side do so, in bytes.
const maxPending = 32 << 10

// Writer collects frames and writes them. Its methods may be called concurrently. Flush, Data and Start may wait
// for the other side; the others may be called where nothing may wait. The first error ends it.
type Writer struct {
	w io.Writer

	mu      sync.Mutex
	idle    sync.Cond // nothing is being written
	pending []byte
	writing bool
	err     error
}

// NewWriter returns a writer of what follows the preface.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: w}
	out.idle.L = &out.mu
	return out
}

// Flush waits until all that was collected is written.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing {
		w.idle.Wait()
	}
	w.write()
	return w.err
}

// Start has what was collected written, by a goroutine that is already writing or by the caller. It waits only if more
// is pending than the callers of Start collect.
func (w *Writer) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing && len(w.pending) > 8*maxPending {
		w.idle.Wait()
	}
	if !w.writing {
		w.write()
	}
	return w.err
}

// Full reports whether so much was collected that it is time to flush it.
func (w *Writer) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) > maxPending
}

// write writes until nothing is pending. w.mu must be held, and is given up meanwhile.
func (w *Writer) write() {
	w.writing = true
	for len(w.pending) > 0 && w.err == nil {
		b := w.pending
		w.pending = nil
		w.mu.Unlock()
		_, err := w.w.Write(b)
		w.mu.Lock()
		if w.err = err; w.pending == nil && cap(b) <= 2*maxPending {
			w.pending = b[:0]
		}
	}
	if w.err != nil {
		w.pending = nil
	}
	w.writing = false
	w.idle.Broadcast()
}

// Preface writes what a client says first.
func (w *Writer) Preface() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, Preface...)
}

// Pass writes a frame as it was read. A block of fields is written by Headers.
func (w *Writer) Pass(f Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, f.whole...)
}

// Headers writes a block of fields.
func (w *Writer) Headers(stream uint32, fields []Field, end bool) {
	block := encode(fields)
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, flags := TypeHeaders, endFlag(end); len(block) > 0; t, flags = TypeContinuation, 0 {
		part := block[:min(len(block), MaxPayload)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= flagEndHeaders
		}
		w.frame(t, flags, stream, part)
	}
}

// encode encodes fields as they are, without a table (RFC 7541, section 6.2.2), and says so at the beginning. Then the
// size of the other side's table does not matter, even when the other side makes it smaller (section 4.2). Between
// sockets on one machine a table is not worth its cost.
func encode(fields []Field) []byte {
	block := []byte{0x20} // the table has no room
	for _, f := range fields {
		kind := byte(0) // a literal that goes into no table
		if f.Sensitive {
			kind = 0x10 // and that no later proxy may put into one, either
		}
		block = append(block, kind)
		block = appendText(block, f.Name)
		block = appendText(block, f.Value)
	}
	return block
}

// appendText appends a string, preceded by its length (RFC 7541, sections 5.1 and 5.2).
func appendText(b []byte, s string) []byte {
	const most = 1<<7 - 1
	if len(s) < most {
		b = append(b, byte(len(s)))
	} else {
		b = binary.AppendUvarint(append(b, most), uint64(len(s)-most))
	}
	return append(b, s...)
}

// Data writes DATA of at most MaxPayload. It waits while much is pending.
func (w *Writer) Data(stream uint32, data []byte, end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > maxPending && w.err == nil {
		if !w.writing {
			w.write()
			break
		}
		w.idle.Wait()
	}
	w.frame(TypeData, endFlag(end), stream, data)
}

func endFlag(end bool) byte {
	if end {
		return flagEndStream
	}
	return 0
}

// Settings writes SETTINGS.
func (w *Writer) Settings(all ...Setting) {
	var payload []byte
	for _, s := range all {
		payload = binary.BigEndian.AppendUint16(payload, uint16(s.ID))
		payload = binary.BigEndian.AppendUint32(payload, s.Value)
	}
	w.control(TypeSettings, 0, 0, payload)
}

// AckSettings acknowledges SETTINGS.
func (w *Writer) AckSettings() { w.control(TypeSettings, flagAck, 0, nil) }

// WindowUpdate grants n bytes more, on a stream or (0) on the connection. If n is 0, it writes nothing.
func (w *Writer) WindowUpdate(stream uint32, n int64) {
	if n > 0 {
		w.control(TypeWindowUpdate, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
}

// Reset ends a stream.
func (w *Writer) Reset(stream uint32, code Code) {
	w.control(TypeReset, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// GoAway says that no stream above last is served, and why.
func (w *Writer) GoAway(last uint32, code Code, text []byte) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, uint32(code))
	w.control(TypeGoAway, 0, 0, append(payload, text[:min(len(text), MaxPayload-len(payload))]...))
}

func (w *Writer) control(t Type, flags byte, stream uint32, payload []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frame(t, flags, stream, payload)
}

func (w *Writer) frame(t Type, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	w.pending = append(w.pending, byte(n>>16), byte(n>>8), byte(n), byte(t), flags)
	w.pending = binary.BigEndian.AppendUint32(w.pending, stream)
	w.pending = append(w.pending, payload...)
}
