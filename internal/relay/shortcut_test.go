package relay

import (
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// What was teed is spliced in full and in order; the reader's copy in the first pipe stays to be read.
func TestShortcut(t *testing.T) {
	in, inW := testkit.Pipe(t)
	out, outW := testkit.Pipe(t)
	for _, f := range []interface{ Close() error }{in, inW, out, outW} {
		defer f.Close()
	}
	if _, err := inW.WriteString("abcdef"); err != nil {
		t.Fatal(err)
	}
	var c shortcut
	defer c.close()
	if n := c.tee(int(in.Fd()), 4); n != 4 || c.held != 4 {
		t.Fatalf("%d bytes teed, %d held", n, c.held)
	}
	if n := readable(int(in.Fd())); n != 6 {
		t.Errorf("%d bytes are left to be read", n)
	}
	if n := c.splice(int(outW.Fd())); n != 4 || c.held != 0 {
		t.Errorf("%d bytes spliced, %d held", n, c.held)
	}
	buf := make([]byte, 10)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "abcd" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

// Where there is nothing to tee, all is to be read; where nothing can be spliced, nothing is held any more.
func TestShortcutThatCannotBe(t *testing.T) {
	null := devNull(t)
	var c shortcut
	if n := c.tee(int(null.Fd()), 100); n != 100 || c.held != 0 {
		t.Errorf("%d, %d held", n, c.held)
	}
	in, inW := testkit.Pipe(t)
	defer in.Close()
	defer inW.Close()
	if _, err := inW.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	c.tee(int(in.Fd()), 100)
	if n := c.splice(-1); n != 0 || c != (shortcut{}) {
		t.Errorf("%d bytes spliced to nowhere, %+v", n, c)
	}
	if n := c.splice(int(inW.Fd())); n != 0 {
		t.Errorf("%d bytes of a closed shortcut", n)
	}
	var st unix.Stat_t
	if unix.Fstat(int(in.Fd()), &st) != nil {
		t.Error("the pipe itself was closed")
	}
}
