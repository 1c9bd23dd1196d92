package http2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Preface is what a client says first (RFC 9113, section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

const (
	// HeadLen is the length of a frame's head, which precedes the payload, in bytes.
	HeadLen = 9
	// MaxPayload is the longest payload that is read or written, in bytes. Every peer takes that much, and may send no
	// more without permission (SETTINGS_MAX_FRAME_SIZE).
	MaxPayload = 1 << 14
	// InitialWindow is how much of DATA may be sent before the other side grants more, in bytes.
	InitialWindow = 1<<16 - 1
	// MaxWindow is the most that may be granted at a time, in bytes.
	MaxWindow = 1<<31 - 1
)

// Type is what a frame is for.
type Type byte

// The types of frames (RFC 9113, section 6).
const (
	TypeData Type = iota
	TypeHeaders
	TypePriority
	TypeReset
	TypeSettings
	TypePushPromise
	TypePing
	TypeGoAway
	TypeWindowUpdate
	TypeContinuation
)

// Flags of frames. One bit has several meanings.
const (
	flagAck        = 0x1 // SETTINGS, PING
	flagEndStream  = 0x1 // DATA, HEADERS
	flagEndHeaders = 0x4 // HEADERS, CONTINUATION
	flagPadded     = 0x8 // DATA, HEADERS
	flagPriority   = 0x20
)

// Code says why a stream or a connection ends.
type Code uint32

// Codes of errors (RFC 9113, section 7).
const (
	CodeNone          Code = 0x0
	CodeProtocol      Code = 0x1
	CodeInternal      Code = 0x2
	CodeRefusedStream Code = 0x7
	CodeCalm          Code = 0xb
	CodeHTTP11        Code = 0xd
)

// ErrMalformed says that frames break the rules of HTTP/2 or are longer than announced, so that nothing after them
// counts.
var ErrMalformed = errors.New("malformed HTTP/2")

// Frame is one frame, or a block of header fields with all frames that carry it.
type Frame struct {
	Type   Type
	Flags  byte
	Stream uint32
	// Payload is valid until the next frame is read. A block of fields has none.
	Payload []byte
	// Fields are those of TypeHeaders, decoded, including the pseudo fields.
	Fields []Field

	whole []byte // with its head
}

// Ack reports whether SETTINGS or PING is an acknowledgement.
func (f Frame) Ack() bool { return f.Flags&flagAck != 0 }

// EndStream reports whether DATA or HEADERS is the last of its sender on this stream.
func (f Frame) EndStream() bool { return f.Flags&flagEndStream != 0 }

// Data returns the payload of DATA without its padding. All of the payload counts for the windows.
func (f Frame) Data() []byte {
	if f.Flags&flagPadded == 0 {
		return f.Payload
	}
	return f.Payload[1 : len(f.Payload)-int(f.Payload[0])]
}

// Number returns the first 32 bits of the payload: the increment of WINDOW_UPDATE, or the last stream of GOAWAY. The first
// bit of both is reserved.
func (f Frame) Number() uint32 { return binary.BigEndian.Uint32(f.Payload) }

// Code returns why GOAWAY was sent.
func (f Frame) Code() Code { return Code(binary.BigEndian.Uint32(f.Payload[4:])) }

// Settings returns what SETTINGS sets.
func (f Frame) Settings() (out []Setting) {
	for p := f.Payload; len(p) > 0; p = p[settingLen:] {
		out = append(out, Setting{SettingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])})
	}
	return out
}

// Setting is a parameter of one side, which the other side keeps to.
type Setting struct {
	ID    SettingID
	Value uint32
}

const settingLen = 6 // bytes

// SettingID names a setting.
type SettingID uint16

// The settings (RFC 9113, section 6.5.2).
const (
	SettingTableSize SettingID = iota + 1
	SettingEnablePush
	SettingMaxStreams
	SettingInitialWindow
	SettingMaxPayload
	SettingMaxFields
)

// check returns an error if a frame breaks the rules of its type.
func (f Frame) check() error {
	n := len(f.Payload)
	switch f.Type {
	case TypeData:
		return f.must(f.Stream != 0 && f.padding() >= 0)
	case TypeHeaders:
		return f.must(f.Stream != 0)
	case TypePriority:
		return f.must(f.Stream != 0 && n == 5)
	case TypeReset:
		return f.must(f.Stream != 0 && n == 4)
	case TypeSettings:
		return f.must(f.Stream == 0 && n%settingLen == 0 && (n == 0 || !f.Ack()) && validSettings(f.Settings()))
	case TypePing:
		return f.must(f.Stream == 0 && n == 8)
	case TypeGoAway:
		return f.must(f.Stream == 0 && n >= 8)
	case TypeWindowUpdate:
		return f.must(n == 4 && f.Number()<<1 != 0)
	case TypePushPromise, TypeContinuation:
		return f.must(false) // push is never enabled, and a continuation is read with its block
	}
	return nil
}

func (f Frame) must(ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: frame of type %d on stream %d with %d bytes", ErrMalformed, f.Type, f.Stream, len(f.Payload))
}

// padding returns how many bytes of padding follow, -1 if there is not enough room for them.
func (f Frame) padding() int {
	switch {
	case f.Flags&flagPadded == 0:
		return 0
	case len(f.Payload) == 0 || int(f.Payload[0]) >= len(f.Payload):
		return -1
	}
	return int(f.Payload[0])
}

func validSettings(all []Setting) bool {
	for _, s := range all {
		switch {
		case s.ID == SettingEnablePush && s.Value > 1,
			s.ID == SettingInitialWindow && s.Value > MaxWindow,
			s.ID == SettingMaxPayload && (s.Value < MaxPayload || s.Value >= 1<<24):
			return false
		}
	}
	return true
}
