package share

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// part is one part of what sessions of one server have in common, word by word.
type part struct {
	name  string
	words []string
}

// key is the name of the shared server: a hash with the user's secret. It tells others nothing about the environment,
// and two different identities have the same key with a probability of 2^-128.
func key(secret [16]byte, parts []part) string {
	var b []byte
	for _, p := range parts {
		b = p.appendTo(b)
	}
	return digest(secret, b)
}

// digest is the keyed hash of a text as a text.
func digest(secret [16]byte, text []byte) string {
	sum := keyedHash(secret, text)
	return hex.EncodeToString(sum[:])
}

// digests are short hashes of the parts, for ps: they show in which part two servers differ.
func digests(secret [16]byte, parts []part) map[string]string {
	all := make(map[string]string, len(parts))
	for _, p := range parts {
		all[p.name] = digest(secret, p.appendTo(nil))[:8]
	}
	return all
}

// appendTo writes a part so that no other one reads the same.
func (p part) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.words)))
	for _, w := range p.words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
	}
	return b
}

// keyedHash is SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; the
// longer output is that of the reference implementation). Without the key its output cannot be distinguished from
// random. HMAC-SHA256 would do as well, and add 168 KB to the program.
func keyedHash(key [16]byte, text []byte) (sum [16]byte) {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	s := sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	length := len(text)
	for ; len(text) >= 8; text = text[8:] {
		s.take(binary.LittleEndian.Uint64(text))
	}
	var last [8]byte
	copy(last[:], text)
	last[7] = byte(length)
	s.take(binary.LittleEndian.Uint64(last[:]))
	s[2] ^= 0xee
	s.rounds(4)
	binary.LittleEndian.PutUint64(sum[:8], s[0]^s[1]^s[2]^s[3])
	s[1] ^= 0xdd
	s.rounds(4)
	binary.LittleEndian.PutUint64(sum[8:], s[0]^s[1]^s[2]^s[3])
	return sum
}

// className shortens a class for the name of a place. Where two classes get one name, the host sends away what does not fit.
func className(class string) string {
	return digest([16]byte{}, []byte(class))[:8]
}

type sip [4]uint64

func (s *sip) take(m uint64) {
	s[3] ^= m
	s.rounds(2)
	s[0] ^= m
}

func (s *sip) rounds(n int) {
	for range n {
		s[0] += s[1]
		s[1] = bits.RotateLeft64(s[1], 13) ^ s[0]
		s[0] = bits.RotateLeft64(s[0], 32)
		s[2] += s[3]
		s[3] = bits.RotateLeft64(s[3], 16) ^ s[2]
		s[0] += s[3]
		s[3] = bits.RotateLeft64(s[3], 21) ^ s[0]
		s[2] += s[1]
		s[1] = bits.RotateLeft64(s[1], 17) ^ s[2]
		s[2] = bits.RotateLeft64(s[2], 32)
	}
}
