package proc

import (
	"os"
	"testing"
)

func TestOwnWords(t *testing.T) {
	for _, c := range []struct {
		status string
		uid    int
		want   bool
	}{
		{"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t7\n", 0, true},
		{"Name:\tx\nUid:\t7\t7\t7\t7\nNSpid:\t7\n", 7, true},
		{"Name:\tx\nUid:\t7\t7\t7\t7\nNSpid:\t7\t1\n", 7, true},
		{"Name:\tx\nUid:\t0\t0\t0\t0\n", 0, true},
		{"Name:\tsu\nUid:\t7\t0\t0\t0\nNSpid:\t7\n", 0, false},
		{"Name:\tsu\nUid:\t0\t0\t7\t0\nNSpid:\t7\n", 0, false},
		{"Name:\tsu\nUid:\t0\t7\t0\t0\nNSpid:\t7\n", 7, false},
		{"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n", 0, false},
		{"Name:\tUid:\\t0\nUid:\t7\t7\t7\t7\n", 0, false},
		{"Uid:\t0\t0\n", 0, false},
		{"Name:\tx\n", 0, false},
		{"", 0, false},
	} {
		if got := Status("\n" + c.status).ownWords(c.uid); got != c.want {
			t.Errorf("%q of %d: %v", c.status, c.uid, got)
		}
	}
	if own, err := OwnWords(os.Getpid(), os.Getuid()); !own || err != nil {
		t.Errorf("this process: %v, %v", own, err)
	}
	if own, err := OwnWords(os.Getpid(), os.Getuid()+1); own || err != nil {
		t.Errorf("somebody else: %v, %v", own, err)
	}
}
