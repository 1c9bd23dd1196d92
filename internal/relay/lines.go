package relay

import "bytes"

// lines cuts a stream into lines. It looks at each byte once, however many pieces a line comes in.
type lines struct {
	// begun is the line that has begun and not ended.
	begun []byte
	// skipping says that the rest of the line is dropped, see skip.
	skipping bool
}

// next takes bytes of the stream and gives the first whole line in them, with its newline, and the bytes after it. line is
// nil where there is none. It is valid until the next call.
func (l *lines) next(b []byte) (line, rest []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			if !l.skipping {
				l.grow(len(b))
				l.begun = append(l.begun, b...)
			}
			return nil, nil
		}
		line, rest = b[:i+1], b[i+1:]
		if !l.skipping {
			break
		}
		l.skipping, b = false, rest
	}
	if len(l.begun) > 0 {
		line = append(l.begun, line...)
		l.begun = nil
	}
	return line, rest
}

// grow makes room for more of the line. A long one doubles it: with the smaller steps of append there is more garbage than line.
func (l *lines) grow(more int) {
	if need := len(l.begun) + more; need > cap(l.begun) && need > bulkBuffer {
		l.begun = append(make([]byte, 0, max(2*cap(l.begun), need)), l.begun...)
	}
}

// take returns the line that has begun, and forgets it.
func (l *lines) take() []byte {
	b := l.begun
	l.begun = nil
	return b
}

// skip drops the line that has begun, and the rest of it when that comes.
func (l *lines) skip() { l.begun, l.skipping = nil, true }
