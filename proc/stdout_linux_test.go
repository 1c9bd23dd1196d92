package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Of the processes that have a pipe open, only those that can read it are readers of it.
func TestPipeReaders(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	start := func(in, out *os.File) int {
		cmd := exec.Command("sleep", "60")
		cmd.Stdin, cmd.Stdout = in, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	reader, writer, neither := start(r, nil), start(nil, w), start(nil, nil)
	var rd Reader
	all := rd.PipeReaders([]int{reader, writer, neither, 1 << 30})
	if elsewhere, got := rd.Stdout(writer, all); elsewhere || !slices.Equal(got, []int{reader}) {
		t.Errorf("%v, %v; want %d", elsewhere, got, reader)
	}
	if elsewhere, got := rd.Stdout(neither, all); elsewhere || got != nil {
		t.Errorf("/dev/null: %v, %v", elsewhere, got)
	}
	r.Close()
	w.Close()
}
