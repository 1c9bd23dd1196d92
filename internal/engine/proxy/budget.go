package proxy

import (
	"errors"
	"io"
	"sync/atomic"
)

// maxHeld is how much the clients of a session may make the proxy hold in memory, in bytes. It counts all heads and
// creates that have come only in part, beyond the buffers of the connections.
const maxHeld = 16 << 20

// errBusy says that a client would make the proxy hold more than maxHeld.
var errBusy = errors.New("too many long requests at once: try again")

// budget is what all links of a proxy hold together, in bytes. The zero value is empty.
type budget struct{ held atomic.Int64 }

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
	m.all.held.Add(-m.held)
	m.held, m.on = 0, false
}
