package cli

import (
	"os"

	"golang.org/x/term"
)

// What a terminal shows in another way (ECMA-48, 8.3.117).
const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	cyan    = "\x1b[36m"
	plain   = "\x1b[m"
)

// coloured reports whether a file is a terminal whose user wants colours (no-color.org).
func coloured(f any) bool {
	out, ok := f.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}

// paint is text in a colour, if there are colours.
func paint(on bool, colour, text string) string {
	if !on || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}
