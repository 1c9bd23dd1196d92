package cli

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// askable reports whether a user sees questions and can answer them.
func askable() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// confirm asks one question on a terminal, which gives a line at a time. Any answer but yes is a no.
func confirm(question string) bool {
	fmt.Fprint(os.Stdout, fold(question+" [y/N]", 0)+" ")
	var line [256]byte
	n, _ := os.Stdin.Read(line[:])
	switch strings.ToLower(strings.TrimSpace(string(line[:max(n, 0)]))) {
	case "y", "yes":
		return true
	}
	return false
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprint(n, " ", what, "s")
}
