package describe

import (
	"os"
	"testing"
)

func TestProcess(t *testing.T) {
	if m := Memory(os.Getpid()); m < 1<<20 || m > 1<<32 {
		t.Errorf("this test uses %d bytes", m)
	}
	if CPU(os.Getpid()) < 0 || Memory(1<<22) != 0 || CPU(1<<22) != 0 {
		t.Error("odd answers")
	}
	if User(0) != "root" || User(987654321) != "987654321" {
		t.Errorf("%q, %q", User(0), User(987654321))
	}
}
