package mcp

import (
	"encoding/binary"
	"math/bits"
)

// An array or object that is a member of a message is passed over in blocks of 64 bytes. A block is read as eight
// words. Its quotes, brackets and backslashes become masks with one bit per byte. The method is from Langdale and
// Lemire, "Parsing Gigabytes of JSON per Second", 2019, section 3.1; here it works without vector instructions. A long
// string in the value is passed over by bytes.IndexByte.

const blockSize = 64

// block are 64 bytes.
type block [blockSize]byte

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
	// foldBrackets are the bits in which the four brackets differ. With all of these bits set, each bracket is
	// bracketBits. So are the letters y and Y, the underscore and the byte 0x7f.
	foldBrackets = 0x26
	bracketBits  = 0x7f
)

// word is the word at a place.
func (b *block) word(i int) uint64 { return binary.LittleEndian.Uint64(b[i&(blockSize-8):]) }

// has reports whether the block may have a quote, and whether it may have a bracket.
func (b *block) has() (quote, bracket bool) {
	var quotes, brackets uint64
	for i := 0; i < blockSize; i += 16 {
		v, w := b.word(i), b.word(i+8)
		quotes |= hasZero(v^lows*'"') | hasZero(w^lows*'"')
		brackets |= hasZero(v|lows*foldBrackets^lows*bracketBits) | hasZero(w|lows*foldBrackets^lows*bracketBits)
	}
	return quotes&highs != 0, brackets&highs != 0
}

// places has a bit for each byte that is c, once the bits of fold are set in it.
func (b *block) places(fold, c uint64) (m uint64) {
	fold, c = lows*fold, lows*c
	for i := 0; i < blockSize; i += 16 {
		m |= zeros(b.word(i)|fold^c) << i
		m |= zeros(b.word(i+8)|fold^c) << (i + 8)
	}
	return m
}

// hasBackslash reports whether the block has a backslash.
func (b *block) hasBackslash() bool {
	found := uint64(0)
	for i := 0; i < blockSize; i += 16 {
		found |= hasZero(b.word(i)^lows*'\\') | hasZero(b.word(i+8)^lows*'\\')
	}
	return found&highs != 0
}

// hasZero has one of the high bits set if a byte of the word is 0.
func hasZero(w uint64) uint64 { return (w - lows) &^ w }

// zeros has a bit for each byte of the word that is 0.
func zeros(w uint64) uint64 {
	w = ^((w&^highs + ^uint64(highs)) | w | ^uint64(highs))
	// The product has the eight high bits side by side at its top.
	return w >> 7 * 0x0102040810204080 >> 56
}

// escapes has a bit for each byte that follows an odd number of backslashes. first says that the block itself follows
// such a number. next says that the block's first n bytes end with one.
func escapes(backslashes uint64, first bool, n int) (escaped uint64, next bool) {
	const even = 0x5555555555555555
	if first {
		escaped = 1
	}
	backslashes &^= escaped
	follows := backslashes<<1 | escaped
	// A run that begins at an odd place is carried to the byte behind it.
	ends, _ := bits.Add64(backslashes&^even&^follows, backslashes, 0)
	return (even ^ ends<<1) & follows, bits.LeadingZeros64(^(backslashes<<(blockSize-n)))%2 == 1
}

// inside has a bit for each byte of a string, including the opening quote but not the closing one. text says that the
// block begins in a string.
func inside(quotes uint64, text bool) uint64 {
	for n := 1; n < blockSize; n *= 2 {
		quotes ^= quotes << n
	}
	if text {
		return ^quotes
	}
	return quotes
}

// inNested goes on in an array or object: to its end, or to the end of p.
func (l *line) inNested(p []byte, i int) int {
	var padded block
	for i < len(p) {
		n := min(len(p)-i, blockSize)
		b := &padded
		if n == blockSize {
			b = (*block)(p[i:])
		} else {
			copy(b[:], p[i:])
		}
		text := l.step == inNestedText
		hasQuote, hasBracket := b.has()
		if text && !hasQuote {
			return l.inString(p, i)
		}
		var quotes, texts uint64
		if hasQuote {
			quotes = b.places(0, '"')
			texts = inside(quotes, text)
		}
		if hasQuote && (l.escaped || b.hasBackslash()) {
			backslashes := b.places(0, '\\')
			escaped, next := escapes(backslashes, l.escaped, n)
			if quotes &^= escaped; text && quotes == 0 {
				return l.inString(p, i)
			}
			texts = inside(quotes, text)
			if backslashes&^texts != 0 {
				return l.inBytes(p, i)
			}
			l.escaped = next
		}
		if hasBracket {
			if end := l.count(p[i:], b.places(foldBrackets, bracketBits)&^texts); end > 0 {
				l.escaped = false
				l.endValue(p, i+end)
				return i + end
			}
		}
		l.step = inNestedValue
		if texts>>(n-1)&1 != 0 {
			l.step = inNestedText
		}
		i += n
	}
	return i
}

// inBytes goes on byte by byte in an array or object that has a backslash outside of strings, where JSON allows none.
// It goes on to the end of the value, or to a string in it. The backslash means nothing there.
func (l *line) inBytes(p []byte, i int) int {
	if l.step == inNestedText {
		return l.inString(p, i)
	}
	for ; i < len(p); i++ {
		if p[i] == '"' {
			l.step = inNestedText
			return l.inString(p, i+1)
		}
		if l.count(p[i:], 1) > 0 {
			l.endValue(p, i+1)
			return i + 1
		}
	}
	return i
}

// count follows the brackets at these places of p. It returns the index behind the one that ends the value, 0 if none
// does.
func (l *line) count(p []byte, places uint64) (end int) {
	for ; places != 0; places &= places - 1 {
		i := bits.TrailingZeros64(places)
		switch p[i] {
		case '{', '[':
			l.depth++
		case '}', ']':
			if l.depth--; l.depth == l.base {
				return i + 1
			}
		}
	}
	return 0
}
