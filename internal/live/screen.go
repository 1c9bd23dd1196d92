package live

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// screen is the terminal's other screen, with keys that are read one by one.
type screen struct {
	// before is how the terminal was, nil if standard input is none.
	before *unix.Termios
}

// theScreen notes how the terminal is.
func theScreen() *screen {
	var s screen
	s.before, _ = unix.IoctlGetTermios(0, unix.TCGETS)
	return &s
}

// while shows the other screen during a call. Whatever comes of that, the terminal is then as it was.
func (s *screen) while(show func() error) error {
	s.enter()
	defer s.leave()
	return show()
}

// enter shows the other screen, without cursor and without line breaks of the terminal's. Its order matters: in the background
// the kernel stops the process at the first step.
func (s *screen) enter() {
	if s.before != nil {
		keys := *s.before
		keys.Lflag &^= unix.ICANON | unix.ECHO
		keys.Iflag &^= unix.IXON // Ctrl-S would hold up every signal.
		keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
		_ = unix.IoctlSetTermios(0, unix.TCSETS, &keys)
	}
	fmt.Fprint(os.Stdout, "\x1b[?1049h\x1b[?25l\x1b[?7l")
}

func (s *screen) leave() {
	fmt.Fprint(os.Stdout, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	if s.before != nil {
		_ = unix.IoctlSetTermios(0, unix.TCSETS, s.before)
	}
}

// guard is to be deferred by other threads than that of while: a panic there ends the process without its defer.
func (s *screen) guard() {
	if p := recover(); p != nil {
		s.leave()
		panic(p)
	}
}
