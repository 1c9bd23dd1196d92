package live

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// On the screen: what may end a program that shows something there.
var _ = testkit.Role("on the screen", func() {
	s := theScreen()
	err := s.while(func() error {
		fmt.Fprint(os.Stdout, "shown\n")
		switch testkit.RoleArgs()[0] {
		case "panic":
			panic("here")
		case "panic elsewhere":
			go func() {
				defer s.guard()
				panic("there")
			}()
			select {}
		case "never left": // the control
			os.Exit(0)
		}
		return errors.New("an error")
	})
	fmt.Fprint(os.Stdout, err)
})

// However the program ends, the terminal is as it was.
func TestScreenRestoresTheTerminal(t *testing.T) {
	for _, end := range []string{"error", "panic", "panic elsewhere", "never left"} {
		master, slave := openTerminal(t)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := testkit.Command(t, "on the screen", end)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		_ = cmd.Run()
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		_ = slave.Close()
		shown, _ := io.ReadAll(master) // EIO at its end
		enters, leaves := bytes.Index(shown, []byte("\x1b[?1049h")), bytes.LastIndex(shown, []byte("\x1b[?1049l"))
		restored := *before == *after && enters >= 0 && leaves > enters
		if restored != (end != "never left") || !strings.Contains(string(shown), "shown") {
			t.Errorf("%s: restored %v:\n%q", end, restored, shown)
		}
		if tail := string(shown[max(leaves, 0):]); end != "never left" && !strings.Contains(tail, "here") && !strings.Contains(tail, "there") && !strings.Contains(tail, "an error") {
			t.Errorf("%s: the reason is not on the first screen: %q", end, tail)
		}
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	testkit.Lacks(t, testkit.Tools, err != nil, "pseudo terminals")
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
