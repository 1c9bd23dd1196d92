package proc

import "golang.org/x/sys/unix"

// OnTerminal reports whether standard input is the controlling terminal and the caller belongs to its foreground
// process group. Then a person started the process there, or a shell for them.
func OnTerminal() bool {
	fg, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && fg == unix.Getpgrp()
}

// IsTerminal reports whether a descriptor is a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
