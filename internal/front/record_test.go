package front

import (
	"os"
	"testing"
)

// The front of a shared server has a record each time that it is attached to no host. Seen to keep a descriptor for each.
func TestRecordsLeaveNoDescriptors(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	f, _, _ := withClient(t, asleep)
	f.record.ID = "0123456789abcdef"
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := open()
	for range 10 {
		if f.openRecord(); f.lease == nil {
			t.Fatal("no record")
		}
		f.closeRecord()
	}
	if now := open(); now != before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
}
