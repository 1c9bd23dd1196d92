package display

import (
	"os"

	"golang.org/x/term"
)

// What a terminal shows in another way (ECMA-48, 8.3.117).
const (
	Bold    = "\x1b[1m"
	Inverse = "\x1b[7m"
	Red     = "\x1b[31m"
	Green   = "\x1b[32m"
	Yellow  = "\x1b[33m"
	Cyan    = "\x1b[36m"
	plain   = "\x1b[m"
)

// Coloured reports whether a file is a terminal whose user wants colours (no-color.org).
func Coloured(f any) bool {
	out, ok := f.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}

// Paint is text in a colour, if there are colours.
func Paint(on bool, colour, text string) string {
	if !on || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}
