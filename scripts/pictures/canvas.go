package main

import (
	"fmt"
	"html"
	"strings"
)

// canvas collects the elements of a picture. Lengths are in pixels.
type canvas struct {
	width, height int
	title         string
	elements      strings.Builder
}

// Colours for a light and a dark page.
const style = `<style>
text { font: 13px sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.head { font-weight: bold; }
.box { fill: #ffffff; stroke: #59636e; }
.ours { fill: #ddf4ff; stroke: #0969da; }
.bar { fill: #afb8c1; }
.mine { fill: #0969da; }
.leaf { fill: none; stroke: #1a7f37; stroke-dasharray: 5 4; }
.line { fill: none; stroke: #59636e; }
.found { fill: none; stroke: #0969da; stroke-dasharray: 3 3; }
.alarm { font-weight: bold; fill: #cf222e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.small { fill: #9198a1; }
.box { fill: #0d1117; stroke: #9198a1; }
.ours { fill: #051d4d; stroke: #4493f8; }
.bar { fill: #656c76; }
.mine { fill: #4493f8; }
.line { stroke: #9198a1; }
.found { stroke: #4493f8; }
.leaf { stroke: #3fb950; }
.alarm { fill: #f85149; }
}
</style>
<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,1 L7,4 L0,7 z" fill="#59636e"/></marker></defs>
`

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.elements, format+"\n", args...) }

func (c *canvas) text(x, y int, class, text string) {
	c.add(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

func (c *canvas) rect(x, y, width, height int, class string) {
	c.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="4" class="%s"/>`, x, y, width, height, class)
}

// arrow leads through points, each a pair of x and y.
func (c *canvas) arrow(class string, points ...int) {
	var path strings.Builder
	for i := 0; i+1 < len(points); i += 2 {
		fmt.Fprintf(&path, "%c%d,%d ", "LM"[b2i(i == 0)], points[i], points[i+1])
	}
	c.add(`<path d="%s" class="%s" marker-end="url(#tip)"/>`, strings.TrimSpace(path.String()), class)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%s</title>
%s%s</svg>
`, c.width, c.height, html.EscapeString(c.title), style, c.elements.String())
}
