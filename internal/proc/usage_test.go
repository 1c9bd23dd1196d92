package proc

import (
	"os"
	"os/exec"
	"testing"
)

func TestUsage(t *testing.T) {
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	var r Reader
	for used := uint64(0); used < 2; _, used, _ = r.Usage(os.Getpid()) {
		for i := range held {
			held[i]++
		}
	}
	if memory, ticks, _ := r.Usage(os.Getpid()); memory < 32<<20 || memory > 1<<34 || ticks > 1<<20 {
		t.Errorf("this test uses %d bytes and has used %d ticks", memory, ticks)
	}
	busy := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := busy.Run(); err != nil {
		t.Fatal(err)
	}
	if _, _, waited := r.Usage(os.Getpid()); waited == 0 {
		t.Error("a child that has ended has used no ticks")
	}
	if memory, ticks, waited := r.Usage(1 << 22); memory+ticks+waited != 0 {
		t.Errorf("no process uses %d bytes and has used %d ticks", memory, ticks)
	}
}
