package proc

import (
	"os"
	"testing"
)

func TestUsage(t *testing.T) {
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	var r Reader
	for used := uint64(0); used < 2; _, used = r.Usage(os.Getpid()) {
		for i := range held {
			held[i]++
		}
	}
	if memory, ticks := r.Usage(os.Getpid()); memory < 32<<20 || memory > 1<<34 || ticks > 1<<20 {
		t.Errorf("this test uses %d bytes and has used %d ticks", memory, ticks)
	}
	if memory, ticks := r.Usage(1 << 22); memory != 0 || ticks != 0 {
		t.Errorf("no process uses %d bytes and has used %d ticks", memory, ticks)
	}
}
