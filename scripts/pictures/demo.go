package main

// fate is one process of the demo, and what became of it. Both runs have the same rows, so that they line up.
type fate struct {
	name, note string
	left       string // in the bare run; "" if it is not there
	ended      string // in the tethered run
}

const running = "STILL RUNNING"

// fates are the outcome of one run of make demo.
func fates() []fate {
	return []fate{
		{"gateway", "starts servers", "SIGKILL", "SIGKILL"},
		{"mcp-tether", "anchor and supervisor", "", "ended after 2.4 ms"},
		{"server", "answers, exits on EOF", "ended after 0.7 ms", "ended after 0.5 ms"},
		{"worker", "child of the server", running, "ended after 1.1 ms"},
		{"helper", "setsid, double fork", running, "ended after 1.0 ms"},
	}
}

// demoPicture shows what make demo shows: the same processes after a gateway's SIGKILL, bare and tethered.
func demoPicture() string {
	const row, top, column, indent = 46, 46, 400, 20
	rows := fates()
	c := canvas{
		width: 2 * column, height: top + row*len(rows) + 22,
		title: "A gateway is SIGKILLed. Without mcp-tether, worker and helper of its server keep running; with it, all have ended after 2.4 ms",
	}
	for i, title := range []string{"without mcp-tether", "with mcp-tether"} {
		x := 20 + i*column
		c.text(x, 26, "head", title)
		parent := 0 // the lower edge of the process that started this one
		for j, f := range rows {
			what := f.ended
			if i == 0 {
				what = f.left
			}
			if what == "" {
				continue
			}
			y := top + row*j
			if parent > 0 {
				c.arrow("line", x+indent/2, parent, x+indent/2, y+18, x+indent, y+18)
				x += indent
			}
			c.fate(x, y, 20+i*column+252, f, what)
			// Worker and helper both are the server's children.
			if parent = y + 36; f.name == "worker" {
				parent, x = top+row*(j-1)+36, x-indent
			}
		}
	}
	c.text(20, c.height-8, "small", "One run of make demo. An arrow leads from a process to what it started.")
	return c.String()
}

// fate draws one process, and beside it what became of it.
func (c *canvas) fate(x, y, beside int, f fate, what string) {
	box, word := "box", "small"
	switch {
	case what == running:
		box, word = "bad", "alarm"
	case f.name == "mcp-tether":
		box = "ours"
	}
	c.rect(x, y, 180, 36, box)
	c.text(x+10, y+15, "head", f.name)
	c.text(x+10, y+30, "small", f.note)
	c.text(beside, y+23, word, what)
}
