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

// Only an answer about this very socket that names a peer says anything; 0 would read as closed.
func TestParsePeerRefuses(t *testing.T) {
	good := answer(attribute(unixDiagPeer, number32(99)...))
	other := answer(attribute(unixDiagPeer, number32(99)...))
	binary.NativeEndian.PutUint32(other[unix.SizeofNlMsghdr+4:], 8)
	long := answer(attribute(unixDiagPeer, number32(99)...))
	binary.NativeEndian.PutUint32(long, 4096)
	for name, b := range map[string][]byte{
		"half a header":        good[:8],
		"no socket":            good[:unix.SizeofNlMsghdr],
		"another socket":       other,
		"cut short":            good[:len(good)-1],
		"longer than it is":    long,
		"attribute too long":   answer([]byte{255, 255, 2, 0}),
		"attribute of nothing": answer([]byte{0, 0, 2, 0, 0, 0, 0, 0}),
	} {
		if s, err := parseUnixSocket(b, 7); err == nil && s.named {
			t.Errorf("%s: peer %d", name, s.peer)
		}
	}
}

func TestParsePeerError(t *testing.T) {
	b := make([]byte, unix.SizeofNlMsghdr+4)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr:], 0xffffffff-uint32(unix.ENOENT)+1)
	if _, err := parseUnixSocket(b, 7); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	if _, err := parseUnixSocket(b[:unix.SizeofNlMsghdr], 7); err == nil {
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
	peer := func(n uint32) []byte { return attribute(unixDiagPeer, number32(n)...) }
	for _, seed := range [][]byte{
		{}, answer(), answer(peer(99)), answer(peer(1<<32 - 1)), append(answer(peer(3)), 1, 2, 3), answer(attribute(unixDiagPeer, 1, 2)),
		answer(attribute(0, 'n', 'a', 'm'), attribute(5, 1), peer(8)),
		// Closed, then not.
		answer(peer(0), attribute(unixDiagShutdown, 3)), answer(attribute(unixDiagShutdown, 1), peer(0)),
		answer(peer(5), attribute(unixDiagShutdown, 3)), answer(peer(0), attribute(unixDiagShutdown, 0)),
		answer(peer(0), attribute(unixDiagShutdown, 2)), answer(peer(0)), answer(attribute(unixDiagShutdown, 3)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseUnixSocket(b, 7)
		if want, named, ok := referencePeer(b); ok && (got.peer != uint64(want) || got.named != named || err != nil) {
			t.Fatalf("%v: %+v, %v, but package syscall reads %d, %v", b, got, err, want, named)
		}
		if err != nil || !got.named {
			return
		}
		ne := binary.NativeEndian
		if len(b) < unix.SizeofNlMsghdr+sizeofUnixDiagMsg+8 || ne.Uint32(b[unix.SizeofNlMsghdr+4:]) != 7 || ne.Uint16(b[4:]) == unix.NLMSG_ERROR {
			t.Fatalf("%v was taken for an answer about socket 7", b)
		}
	})
}
