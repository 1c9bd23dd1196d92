package waiting

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Until a record is written whole, the page has the one before.
func TestRecordIsWrittenBesideTheLast(t *testing.T) {
	p := new(Page)
	if r := p.Record(); r != nil {
		t.Errorf("a new page has the record %q", r)
	}
	size := len(p.record) / 3
	for n := range 7 {
		old := p.Record()
		was := bytes.Clone(old)
		next := bytes.Repeat([]byte{byte('a' + n)}, size)
		if err := p.SetRecord(next); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, was) {
			t.Errorf("record %d is written over the one before", n)
		}
		if !bytes.Equal(p.Record(), next) {
			t.Errorf("record %d is not in the page", n)
		}
	}
	if err := p.SetRecord(make([]byte, len(p.record))); err == nil {
		t.Error("a record has room that is longer than what is left")
	}
}

// What a starter has opened for itself stays open while it lives, its runtime's poller above all. What it was given is closed.
func TestKeepOnlyLeavesTheRuntimeItsOwn(t *testing.T) {
	open := func(flags int) int {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	own, kept, given := open(unix.O_CLOEXEC), open(unix.O_CLOEXEC), open(0)
	p := &Page{}
	p.FD.Lock = kept
	p.KeepOnly([]int{own, kept, given})
	for fd, want := range map[int]error{own: nil, kept: nil, given: unix.EBADF} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, want) {
			t.Errorf("descriptor %d of %d, %d, %d: %v", fd, own, kept, given, err)
		}
	}
	if p.FD.ownBelow != own+1 || p.keeps(own) || !p.keeps(kept) {
		t.Errorf("own below %d", p.FD.ownBelow)
	}
}
