package mcp

import (
	"math/rand/v2"
	"testing"

	"mcp-tether/internal/testkit"
)

// endByBytes is the index behind the nested value that begins with p[0], found byte by byte; 0 if it does not end.
func endByBytes(p []byte) int {
	depth, text, escaped := 0, false, false
	for i, c := range p {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// Blocks find the end that bytes find, whatever the value consists of and wherever it is cut. The alphabets have what
// looks like a bracket or a quote to a careless mask, and text that is no JSON.
func TestNestedValuesEndWhereBytesSay(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	ended := 0
	for _, alphabet := range []string{
		`"\{}[],1`, `""\\aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[{]}`, `[]{}yY_#!"` + "\x7f\xa2\xdb\xfb\xfd\xff\x01\x00",
		`""""""\aaaaaaaaa,[]`, `\\\"`, `[1],`,
	} {
		for range 3000 {
			p := []byte{"[{"[rnd.IntN(2)]}
			for range rnd.IntN(400) {
				p = append(p, alphabet[rnd.IntN(len(alphabet))])
			}
			l := line{step: inNestedValue, depth: 1, member: memberOther, level: 1}
			got := 0
			for from := 1; from < len(p) && got == 0; {
				to := min(from+1+rnd.IntN(200), len(p))
				for i := from; i < to && got == 0; {
					if i = l.inNested(p[:to:to], i); l.step == atNext {
						got = i
					}
				}
				from = to
			}
			want := endByBytes(p)
			if got != want {
				t.Fatalf("%q ends at %d, want %d", p, got, want)
			}
			if want > 0 {
				ended++
			}
		}
	}
	if ended < 1000 {
		t.Errorf("only %d of the values end", ended)
	}
}
