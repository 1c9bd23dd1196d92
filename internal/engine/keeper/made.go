package keeper

import (
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// made is what the session was seen to make. The goroutines of the clients share it.
type made struct {
	mu   sync.Mutex
	ids  map[string]bool // nil if the process that saw them is dead
	last time.Time
	news int // an eventfd that tells of the last one; -1 for none
}

// note takes the id of what was made.
func (m *made) note(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids[id], m.last = true, time.Now()
	if m.news >= 0 {
		_, _ = unix.Write(m.news, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// known are the ids so far.
func (m *made) known() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.ids)
}

// open opens the news. Without a descriptor nothing is told, and all else works.
func (m *made) open() {
	if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.news = fd
	}
}

func (m *made) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.news >= 0 {
		unix.Close(m.news)
	}
	m.news = -1
}

// News is to be polled for input: something was made. It is -1 unless the proxy serves.
func (k *Keeper) News() int {
	k.made.mu.Lock()
	defer k.made.mu.Unlock()
	return k.made.news
}

// MadeAt is when the session was last seen to make something. There are no news then.
func (k *Keeper) MadeAt() time.Time {
	k.made.mu.Lock()
	defer k.made.mu.Unlock()
	var count [8]byte
	if k.made.news >= 0 {
		_, _ = unix.Read(k.made.news, count[:])
	}
	return k.made.last
}
