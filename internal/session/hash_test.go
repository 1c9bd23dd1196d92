package session

import (
	"encoding/hex"
	"testing"
)

// The first vectors of the reference implementation, vectors_sip128 in vectors.h: key 00 01 ... 0f, text 00 01 ... (n-1).
func TestKeyedHash(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range []string{
		"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45", "8177228da4a45dc7fca38bdef60affe4",
		"9c70b60c5267a94e5f33b6b02985ed51",
	} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(i)
		}
		if sum := KeyedHash(key, text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%d bytes: %x, want %s", n, sum, want)
		}
	}
}
