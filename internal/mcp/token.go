package mcp

// tokenMax is the most bytes of an id, a method or a key that are kept. A key that matters has at most 38 (six letters,
// each escaped); a message with a longer id or method is Unclear.
const tokenMax = 64 << 10

// token collects the bytes of a key or value that may be spread over chunks.
type token struct {
	bytes []byte
	from  int // in the current chunk
	on    bool
	over  bool // had more than tokenMax
}

func (t *token) begin(i int) {
	t.bytes, t.from, t.on, t.over = t.bytes[:0], i, true, false
}

// end closes the token before p[end].
func (t *token) end(p []byte, end int) {
	t.pause(p[:end])
	t.on = false
}

// pause takes what the chunk has of the token and expects the rest at the start of the next.
func (t *token) pause(p []byte) {
	if !t.on {
		return
	}
	part := p[t.from:]
	t.from = 0
	t.over = t.over || len(t.bytes)+len(part) > tokenMax
	if !t.over {
		t.bytes = append(t.bytes, part...)
	}
}
