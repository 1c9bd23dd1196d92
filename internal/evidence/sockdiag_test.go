package evidence

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// answer builds what the kernel sends about socket 7.
func answer(attributes ...[]byte) []byte {
	ne := binary.NativeEndian
	head := make([]byte, unix.SizeofNlMsghdr+sizeofUnixDiagMsg)
	ne.PutUint16(head[4:], sockDiagByFamily)
	ne.PutUint32(head[unix.SizeofNlMsghdr+4:], 7)
	b := slices.Concat(append([][]byte{head}, attributes...)...)
	ne.PutUint32(b, uint32(len(b)))
	return b
}

func attribute(kind uint16, value ...byte) []byte {
	ne := binary.NativeEndian
	b := make([]byte, 4, 8)
	ne.PutUint16(b, uint16(4+len(value)))
	ne.PutUint16(b[2:], kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func number32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func TestParsePeer(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want uint32
	}{
		"a peer":               {answer(attribute(unixDiagPeer, number32(99)...)), 99},
		"a closed peer":        {answer(attribute(unixDiagPeer, number32(0)...), attribute(unixDiagShutdown, 3)), 0},
		"closed, told before":  {answer(attribute(unixDiagShutdown, 1), attribute(unixDiagPeer, number32(0)...)), 0},
		"shut down, not gone":  {answer(attribute(unixDiagPeer, number32(5)...), attribute(unixDiagShutdown, 3)), 5},
		"after others":         {answer(attribute(0, 'n', 'a', 'm'), attribute(5, 1), attribute(unixDiagPeer, number32(8)...)), 8},
		"the largest inode":    {answer(attribute(unixDiagPeer, number32(1<<32-1)...)), 1<<32 - 1},
		"more than the answer": {append(answer(attribute(unixDiagPeer, number32(3)...)), 1, 2, 3), 3},
	} {
		if got, err := parsePeer(c.b, 7); err != nil || got != c.want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

// Only an answer about this very socket that names a peer says anything; 0 would read as closed.
func TestParsePeerRefuses(t *testing.T) {
	good := answer(attribute(unixDiagPeer, number32(99)...))
	other := answer(attribute(unixDiagPeer, number32(99)...))
	binary.NativeEndian.PutUint32(other[unix.SizeofNlMsghdr+4:], 8)
	long := answer(attribute(unixDiagPeer, number32(99)...))
	binary.NativeEndian.PutUint32(long, 4096)
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"half a header":        good[:8],
		"no socket":            good[:unix.SizeofNlMsghdr],
		"no attributes":        answer(),
		"another socket":       other,
		"cut short":            good[:len(good)-1],
		"longer than it is":    long,
		"not accepted yet":     answer(attribute(unixDiagPeer, number32(0)...), attribute(unixDiagShutdown, 0)),
		"only we shut down":    answer(attribute(unixDiagPeer, number32(0)...), attribute(unixDiagShutdown, 2)),
		"no word of shutdown":  answer(attribute(unixDiagPeer, number32(0)...)),
		"shut down, no peer":   answer(attribute(unixDiagShutdown, 3)),
		"peer of two bytes":    answer(attribute(unixDiagPeer, 1, 2)),
		"attribute too long":   answer([]byte{255, 255, 2, 0}),
		"attribute of nothing": answer([]byte{0, 0, 2, 0, 0, 0, 0, 0}),
	} {
		if peer, err := parsePeer(b, 7); err == nil {
			t.Errorf("%s: peer %d", name, peer)
		}
	}
}

func TestParsePeerError(t *testing.T) {
	b := make([]byte, unix.SizeofNlMsghdr+4)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr:], 0xffffffff-uint32(unix.ENOENT)+1)
	if _, err := parsePeer(b, 7); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	if _, err := parsePeer(b[:unix.SizeofNlMsghdr], 7); err == nil {
		t.Error("an error without number is none")
	}
}

// A socket that does not exist is an error, not a closed peer.
func TestUnixPeerUnknown(t *testing.T) {
	if peer, err := unixPeer(1<<32 - 2); err == nil {
		t.Errorf("peer %d of a socket that there is not", peer)
	}
}

// referencePeer reads the peer from an answer about socket 7 with package syscall; ok is false where that cannot read it. A
// kernel ends every attribute and message at a multiple of four.
func referencePeer(b []byte) (peer uint32, named, ok bool) {
	ne := binary.NativeEndian
	if len(b) < 4 || ne.Uint32(b)%4 != 0 {
		return 0, false, false
	}
	messages, err := syscall.ParseNetlinkMessage(b[:min(len(b), int(ne.Uint32(b)))])
	if err != nil || len(messages) != 1 || messages[0].Header.Type == unix.NLMSG_ERROR || len(messages[0].Data) < sizeofUnixDiagMsg ||
		ne.Uint32(messages[0].Data[4:]) != 7 {
		return 0, false, false
	}
	// What is in front of the attributes of a link has the same length.
	messages[0].Header.Type = unix.RTM_NEWLINK
	attributes, err := syscall.ParseNetlinkRouteAttr(&messages[0])
	if err != nil {
		return 0, false, false
	}
	shut := false
	for _, a := range attributes {
		switch {
		case a.Attr.Type == unixDiagPeer && len(a.Value) >= 4:
			peer, named = ne.Uint32(a.Value), true
		case a.Attr.Type == unixDiagShutdown && len(a.Value) >= 1:
			shut = a.Value[0]&rcvShutdown != 0
		}
	}
	if named = named && (peer != 0 || shut); !named {
		peer = 0
	}
	return peer, named, true
}

// FuzzParsePeer compares the peer that is read of an answer with package syscall, where that can read the answer.
func FuzzParsePeer(f *testing.F) {
	f.Add(answer(attribute(unixDiagPeer, number32(99)...)))
	f.Add(answer(attribute(0, 'x'), attribute(unixDiagPeer, number32(0)...)))
	f.Add(answer(attribute(unixDiagPeer, number32(0)...), attribute(unixDiagShutdown, 3)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parsePeer(b, 7)
		if want, named, ok := referencePeer(b); ok && (got != want || named != (err == nil)) {
			t.Fatalf("%v: %d, %v, but package syscall reads %d, %v", b, got, err, want, named)
		}
		if err != nil {
			return
		}
		ne := binary.NativeEndian
		if len(b) < unix.SizeofNlMsghdr+sizeofUnixDiagMsg+8 || ne.Uint32(b[unix.SizeofNlMsghdr+4:]) != 7 || ne.Uint16(b[4:]) == unix.NLMSG_ERROR {
			t.Fatalf("%v was taken for an answer about socket 7", b)
		}
	})
}
