package mcp

import (
	"encoding/binary"
	"math/bits"
)

// Each byte of a word, for looking at eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain says how many bytes at the start of p are plain text of a JSON string: no quote, no backslash, no control
// character. Strings are most of what goes through a relay, so this is where its speed is decided.
func plain(p []byte) int {
	i := 0
	for ; i+32 <= len(p); i += 32 {
		b := (*[32]byte)(p[i:])
		if special(word(b[0:]))|special(word(b[8:]))|special(word(b[16:]))|special(word(b[24:])) != 0 {
			break
		}
	}
	for ; i+8 <= len(p); i += 8 {
		if found := special(word(p[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

func word(p []byte) uint64 { return binary.LittleEndian.Uint64(p) }

// special has the high bit set of the first byte that is not plain, and none below it. A borrow may set some above it
// wrongly ("Determine if a word has a byte less than n", Bit Twiddling Hacks); the callers read none of those. With the
// second bit inverted a quote becomes a space, a space becomes a quote, and a control character remains one: a single
// comparison finds both.
func special(w uint64) uint64 {
	q := w ^ ones*2
	b := w ^ ones*'\\'
	return ((q-ones*(' '+1))&^q | (b-ones)&^b) & highs
}
