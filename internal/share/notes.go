package share

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
)

// notes are what the next host must know of a client when this one is killed. They are a view of shared memory that the
// attached process keeps. A kill may come between any two stores, so each change becomes valid with one store of eight
// bytes, made last.
//
// Input is read straight into the memory, behind what was read before. JSON has no zero byte, and the memory behind the
// input is zero, so the input itself shows how far it goes. A line is acted upon when consumed has passed it.
//
// Output passes a pipe that the attached process holds as well (outlet). The bytes in the pipe will be delivered, and
// no others; the kernel knows which they are. The host notes what it is about to put into the empty pipe (intend), and
// that it has done so (commit). After a kill in between, the pipe shows whether it had.
type notes struct {
	mem []byte
	// header is this process's copy of how the memory begins: another process may have written there meanwhile.
	header [headerWords]uint64
	// fill is how far input goes, from the beginning of its part; logged the length of the log in use.
	fill, logged uint64
	// open are the requests of the client that are not answered, by their id as JSON.
	open map[string]int
}

// The layout, in bytes. Pages that are never written to take no memory.
const (
	atMagic     = 0
	atBase      = 8  // how much input came before the beginning of its part
	atConsumed  = 16 // how much input was acted upon, since the client began
	atLog       = 24 // which log is in use
	atLogged    = 32 // the lengths of the two logs
	atIntent    = 48 // how many bytes are about to be put into the empty pipe; 0 for none
	atIntended  = 56 // the length of the log once they are
	atMiddle    = 64 // 1 while the last line in the pipe is not whole
	atMiddleAft = 72 // the same once the bytes are in the pipe
	atKept      = 80 // which memory of the client is in use; 0: none yet
	atKeptSize  = 88 // the lengths of the two
	headerWords = 13

	headerSize = 4 << 10
	logSize    = 1 << 20
	keptSize   = 1 << 20
	inputAt    = headerSize + 2*logSize + 2*keptSize
	// inputMore is the room for one read behind the longest line.
	inputMore = 64 << 10

	notesMagic = 0x6d63707368617265
)

// notesSize is how large the memory is for lines of at most limit bytes.
func notesSize(limit int64) int64 { return inputAt + 2*(limit+inputMore) }

// Why notes cannot be used.
var (
	errNotes   = errors.New("the notes of this client are damaged")
	errTooMany = errors.New("too many open requests, or too long ids")
)

// openNotes reads the notes in a memory that is all zero, or was written by an earlier host.
func openNotes(mem []byte) (*notes, error) {
	n := &notes{mem: mem, open: map[string]int{}}
	if len(mem) < inputAt+2*inputMore {
		return nil, errNotes
	}
	for i := range n.header {
		n.header[i] = binary.NativeEndian.Uint64(mem[8*i:])
	}
	switch n.get(atMagic) {
	case 0:
		n.set(atMagic, notesMagic)
	case notesMagic:
	default:
		return nil, errNotes
	}
	if n.get(atConsumed) < n.get(atBase) || n.get(atConsumed)-n.get(atBase) > uint64(len(n.input())) || n.get(atLog) > 1 ||
		n.get(atKept) > 2 || n.logLen() > logSize {
		return nil, errNotes
	}
	end := bytes.IndexByte(n.input()[n.at():], 0)
	if end < 0 {
		return nil, errNotes
	}
	n.fill = n.at() + uint64(end)
	n.logged = n.logLen()
	if err := n.readLog(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *notes) get(at int) uint64 { return n.header[at/8] }
func (n *notes) input() []byte     { return n.mem[inputAt:] }

func (n *notes) set(at int, v uint64) {
	n.header[at/8] = v
	binary.NativeEndian.PutUint64(n.mem[at:], v)
}

// at is the offset of the first byte that was not acted upon.
func (n *notes) at() uint64 { return n.get(atConsumed) - n.get(atBase) }

func (n *notes) logLen() uint64 { return n.get(atLogged + 8*int(n.get(atLog))) }

func (n *notes) log(which uint64) []byte { return n.mem[headerSize+which*logSize:][:logSize] }

// unread is what was read and not acted upon.
func (n *notes) unread() []byte { return n.input()[n.at():n.fill] }

// room is where the next input goes. When the end is near, it moves what is unread to the front. The old and the new
// place do not overlap, because no line takes more than half. It is nil where a line does.
func (n *notes) room() []byte {
	half := uint64(len(n.input())) / 2
	at := n.at()
	switch {
	case at == n.fill:
		n.restart()
	case at >= half:
		in, rest := n.input(), n.fill-at
		copy(in, in[at:n.fill])
		clear(in[rest:at])
		n.set(atBase, n.get(atConsumed))
		clear(in[at:n.fill])
		n.fill = rest
	}
	in := n.input()
	// The last byte stays zero.
	if uint64(len(in))-n.fill <= inputMore {
		return nil
	}
	return in[n.fill:][:inputMore]
}

// restart begins at the front again: nothing is unread.
func (n *notes) restart() {
	clear(n.input()[:n.fill])
	n.set(atBase, n.get(atConsumed))
	n.fill = 0
}

// took says how much was read into room.
func (n *notes) took(count int) { n.fill += uint64(count) }

// consume says that count bytes of what was unread are acted upon, and that the requests opened are open now.
func (n *notes) consume(count int, opened []string) error {
	from := n.get(atConsumed)
	for _, id := range opened {
		if err := n.write('+', from, id); err != nil {
			return err
		}
	}
	for _, id := range opened {
		n.open[id]++
	}
	n.commitLog(n.logged)
	n.set(atConsumed, from+uint64(count))
	return nil
}

// intend says that count bytes are about to be put into the empty pipe. With answers they end a line that closes these
// requests; middle says that they do not end their line.
func (n *notes) intend(count int, answers []string, middle bool) error {
	for _, id := range answers {
		if err := n.write('-', 0, id); err != nil {
			return err
		}
	}
	n.set(atIntended, n.logged)
	n.set(atMiddleAft, uint64(flag(middle)))
	n.set(atIntent, uint64(count))
	return nil
}

// commit says that the intended bytes are in the pipe.
func (n *notes) commit(answers []string) {
	n.commitLog(n.get(atIntended))
	n.set(atMiddle, n.get(atMiddleAft))
	n.set(atIntent, 0)
	n.drop(answers)
}

// unintend says that none of the intended bytes is in the pipe.
func (n *notes) unintend() {
	n.logged = n.logLen()
	n.set(atIntent, 0)
}

// partly says that some of the intended bytes are in the pipe, and that none of the requests is answered.
func (n *notes) partly() {
	n.logged = n.logLen()
	n.set(atMiddle, 1)
	n.set(atIntent, 0)
}

// close forgets requests that will not be answered: they were cancelled.
func (n *notes) close(ids []string) error {
	for _, id := range ids {
		if err := n.write('-', 0, id); err != nil {
			return err
		}
	}
	n.commitLog(n.logged)
	n.drop(ids)
	return nil
}

func (n *notes) drop(ids []string) {
	for _, id := range ids {
		if n.open[id] > 1 {
			n.open[id]--
		} else {
			delete(n.open, id)
		}
	}
}

func (n *notes) commitLog(length uint64) { n.set(atLogged+8*int(n.get(atLog)), length) }

// write adds a line to the log, which is not valid yet: a sign, where the input of the request began, and its id.
func (n *notes) write(sign byte, from uint64, id string) error {
	need := uint64(len(id)) + 24
	if n.logged+need > logSize {
		if err := n.compact(need); err != nil {
			return err
		}
	}
	b := n.log(n.get(atLog))[:n.logged]
	b = append(b, sign)
	b = strconv.AppendUint(b, from, 10)
	b = append(append(append(b, ' '), id...), '\n')
	n.logged = uint64(len(b))
	return nil
}

// compact writes the open requests to the other log, and behind them the lines that are not valid yet.
func (n *notes) compact(need uint64) error {
	other := 1 - n.get(atLog)
	b := n.log(other)[:0]
	for id, count := range n.open {
		for range count {
			if uint64(len(b)+len(id)+24)+need > logSize {
				return errTooMany
			}
			b = append(append(append(b, "+0 "...), id...), '\n')
		}
	}
	pending := n.log(n.get(atLog))[n.logLen():n.logged]
	if uint64(len(b)+len(pending))+need > logSize {
		return errTooMany
	}
	n.set(atLogged+8*int(other), uint64(len(b)))
	b = append(b, pending...)
	n.logged = uint64(len(b))
	n.set(atLog, other)
	return nil
}

// readLog finds the open requests. One whose input was not acted upon will come again.
func (n *notes) readLog() error {
	clear(n.open)
	log := n.log(n.get(atLog))[:n.logged]
	consumed := n.get(atConsumed)
	for len(log) > 0 {
		line, rest, ok := bytes.Cut(log, []byte{'\n'})
		at, id, spaced := bytes.Cut(line, []byte{' '})
		if !ok || !spaced || len(at) < 2 {
			return errNotes
		}
		log = rest
		from, err := strconv.ParseUint(string(at[1:]), 10, 64)
		switch {
		case err != nil:
			return errNotes
		case at[0] == '-':
			n.drop([]string{string(id)})
		case from < consumed || from == 0 && consumed > 0:
			n.open[string(id)]++
		}
	}
	return nil
}

// settle decides, by how much is in the pipe, how far the host had come when it was killed. broken says that the last
// line that reaches the client is not whole.
func (n *notes) settle(inPipe int) (broken bool, err error) {
	intent := n.get(atIntent)
	switch {
	case intent == 0 || inPipe == 0:
		n.set(atIntent, 0)
	case uint64(inPipe) >= intent:
		if n.get(atIntended) > logSize {
			return false, errNotes
		}
		n.commitLog(n.get(atIntended))
		n.set(atMiddle, n.get(atMiddleAft))
		n.set(atIntent, 0)
	default:
		n.partly()
	}
	n.logged = n.logLen()
	return n.get(atMiddle) == 1, n.readLog()
}

// answered says that all open requests have had an answer, and that no line is unfinished.
func (n *notes) answered() {
	clear(n.open)
	n.logged = 0
	n.commitLog(0)
	n.set(atMiddle, 0)
}

// keep replaces what is to be known of the client beside its requests.
func (n *notes) keep(state []byte) error {
	if len(state) > keptSize {
		return errTooMany
	}
	next := uint64(1)
	if n.get(atKept) == 1 {
		next = 2
	}
	copy(n.kept(next), state)
	n.set(atKeptSize+8*int(next-1), uint64(len(state)))
	n.set(atKept, next)
	return nil
}

func (n *notes) kept(which uint64) []byte {
	return n.mem[headerSize+2*logSize+(which-1)*keptSize:][:keptSize]
}

// state is what was kept last; nil for nothing.
func (n *notes) state() []byte {
	which := n.get(atKept)
	if which == 0 {
		return nil
	}
	size := n.get(atKeptSize + 8*int(which-1))
	if size > keptSize {
		return nil
	}
	return n.kept(which)[:size]
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
