package session

import (
	"encoding/binary"
	"math/bits"
)

// KeyedHash is SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; the
// longer output is that of the reference implementation). Without the key its output cannot be distinguished from
// random. SHA-256 would do as well. With Go 1.26 crypto/sha256 adds 152 kB to the program, and 32 MiB to the data of each
// process, which is never touched but counts (RLIMIT_DATA, strict overcommit): a buffer of crypto/internal/fips140/drbg.
func KeyedHash(key [16]byte, text []byte) (sum [16]byte) {
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
