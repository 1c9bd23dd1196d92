package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// A line is there unless the reader's program moves things and the reader wants that: then it appears at its time, once.
const terminalStyle = `<style>
.screen text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; white-space: pre; }
@media (prefers-reduced-motion: no-preference) {
.screen text { animation: appear 1ms backwards; }
@keyframes appear { from { opacity: 0; } }
}
</style>
<g class="screen" xml:space="preserve">
`

// typing is how long the command stands there before its first output appears, in seconds.
const typing = 1.0

// picture draws the recording as a terminal. A line that is wider than the terminal is an error.
func (c *cast) picture() (string, error) {
	const left, top, row, letter = 16, 28, 18, 7.9
	p := canvas{
		width: 2*left + int(letter*float64(c.Width)), height: top + row*len(c.lines) + 12,
		title: "A run of " + c.Command + ", as a terminal showed it",
	}
	p.rect(1, 1, p.width-2, p.height-2, "box")
	p.elements.WriteString(terminalStyle)
	p.add(`<text x="%d" y="%d">$ <tspan class="head">%s</tspan></text>`, left, top, html.EscapeString(c.Command))
	for i, line := range c.lines {
		if width := utf8.RuneCountInString(line.text); width > c.Width {
			return "", fmt.Errorf("line %d has %d columns of %d: %s", i+1, width, c.Width, line.text)
		}
		if line.text == "" {
			continue
		}
		const alarm = "STILL THERE"
		text := strings.ReplaceAll(html.EscapeString(line.text), alarm, `<tspan class="alarm">`+alarm+`</tspan>`)
		p.add(`<text x="%d" y="%d" style="animation-delay:%.2fs">%s</text>`, left, top+row*(i+1), typing+line.at, text)
	}
	p.add("</g>")
	return p.String(), nil
}
