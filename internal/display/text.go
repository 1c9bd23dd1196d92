package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// SchemaVersion is the version of the JSON that reap, ps and stop print.
const SchemaVersion = 1

// JSON writes a value as one indented object.
func JSON(w io.Writer, v any) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escaped(plain.String()))
	return err
}

// escaped writes as \uXXXX what Text would replace: JSON may be looked at in a terminal, and has such characters in strings
// alone. The line ends between its parts stay.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '\n' || !steering(c):
			b.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// steering reports whether a character steers a terminal or the order in which text is read, or cannot be seen.
func steering(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Text replaces what steers a terminal or the order in which text is read. These are control characters, line and
// paragraph separators, bidirectional controls and other invisible ones (Unicode's Cc, Cf, Zl, Zp). Bytes that are no
// text are replaced too.
func Text(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || steering(c) {
			return '?'
		}
		return c
	}, s)
}

// Error is an error as text for a terminal, with a line for each error that errors.Join made it of.
func Error(err error) string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return Text(err.Error())
	}
	var raw, lines []string
	for _, e := range joined.Unwrap() {
		raw, lines = append(raw, e.Error()), append(lines, Error(e))
	}
	if strings.Join(raw, "\n") != err.Error() {
		return Text(err.Error())
	}
	return strings.Join(lines, "\n")
}

// Command is a redacted command line as one text for a terminal.
func Command(args []string) string { return Text(strings.Join(args, " ")) }

// Number is a number, or a dash for 0.
func Number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// Size is a number of bytes with its unit: 812K, 34M, 1.5G.
func Size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1fG", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%dK", n>>10)
}

// Age is a number of seconds with its two largest units: 59s, 1m00s, 1h02m, 2d.
func Age(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", seconds)
}
