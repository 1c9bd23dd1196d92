package proxy

import (
	"errors"
	"io"
	"sync/atomic"
)

// maxHeld is how much the clients of a session may make the proxy hold in memory, in bytes. It counts all heads and
// creates that have come only in part, beyond the buffers of the connections.
const maxHeld = 16 << 20

// maxBulk is how much of that may hold bodies on their way. The rest is for heads and creates.
const maxBulk = maxHeld / 2

// errBusy says that a client would make the proxy hold more than maxHeld.
var errBusy = errors.New("too many long requests at once: try again")

// budget is what all links of a proxy hold together. The zero value is empty.
type budget struct {
	held atomic.Int64
	bulk atomic.Int64 // the part that holds bodies on their way
}

// take charges n bytes, if they are within the budget.
func (b *budget) take(n int64) bool {
	if b.held.Add(n) <= maxHeld {
		return true
	}
	b.give(n)
	return false
}

// give gives n bytes back.
func (b *budget) give(n int64) { b.held.Add(-n) }

// takeBulk charges n bytes for a body on its way, if they are within its part of the budget.
func (b *budget) takeBulk(n int64) bool {
	if b.bulk.Add(n) <= maxBulk && b.take(n) {
		return true
	}
	b.bulk.Add(-n)
	return false
}

// giveBulk gives back n bytes that takeBulk has charged.
func (b *budget) giveBulk(n int64) {
	b.bulk.Add(-n)
	b.give(n)
}

// meter reads from a client. While it counts, what it reads is held in memory, and charged to the budget.
type meter struct {
	io.Reader
	all  *budget
	held int64
	on   bool
}

// Read fails with errBusy if the budget is spent.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if m.on && !m.charge(int64(n)) {
		return 0, errBusy
	}
	return n, err
}

// charge charges n more bytes, and reports whether they are within the budget. release gives them back in any case.
func (m *meter) charge(n int64) bool {
	m.held += n
	return m.all.held.Add(n) <= maxHeld
}

// count begins to charge what is read.
func (m *meter) count() { m.on = true }

// reserve charges n bytes that are still to come, instead of charging them as they are read. So a create that is
// admitted gets through.
func (m *meter) reserve(n int64) bool {
	m.on = false
	return m.charge(n)
}

// release ends the charging, and gives back all that was charged.
func (m *meter) release() {
	m.all.give(m.held)
	m.held, m.on = 0, false
}
