package reap

import (
	"os"
	"testing"

	"mcp-tether/proc"
)

func TestGather(t *testing.T) {
	h, err := gather(t.TempDir(), Reach{None: true}, func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	var self *process
	for i := range h.Procs {
		if h.Procs[i].PID == os.Getpid() {
			self = &h.Procs[i]
		}
	}
	if self == nil || self.UID != os.Getuid() || self.PPID != os.Getppid() || len(self.Args) == 0 || self.Args[0] != os.Args[0] {
		t.Fatalf("ourselves: %+v", self)
	}
	if h.Self != os.Getpid() || self.Start >= h.Since {
		t.Errorf("the pass takes itself for a newborn: %d, %d", self.Start, h.Since)
	}
	if h.Lives(self.ID) != proc.Alive || h.Lives(proc.ID{PID: self.PID, Start: self.Start - 1}) != proc.Dead || h.Lives(proc.ID{}) != proc.Unknown ||
		h.Lives(proc.ID{PID: 1 << 22, Start: 1}) != proc.Dead || !h.Inside(os.Getpid()) {
		t.Error("odd answers about ourselves")
	}
}

func BenchmarkGather(b *testing.B) {
	for b.Loop() {
		if _, err := gather("", Reach{Recorded: true}, func(error) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	h, err := gather("", Reach{Recorded: true}, func(error) {})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		find(h, modelRules())
	}
}
