package share

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
)

// wireVersion is the version of the messages between front and host. It is part of the key, so that a
// program and its next version never meet.
const wireVersion = 3

// identity is what sessions of one server have in common.
type identity struct {
	// words are those that followed run: flags, command and arguments.
	words []string
	// directory is the working directory, by path and by number: another one may have taken the same path.
	directory string
	device    uint64
	inode     uint64
	uid       int
	host      proc.Host
	// gateway is zero with --share-scope=user.
	gateway proc.ID
	env     []string
}

// isPassing reports whether a variable differs from one start to the next and means nothing to a server. Shells and
// launchers count or note such things for themselves. The working directory is in the key by itself.
func isPassing(assignment string) bool {
	name, _, _ := strings.Cut(assignment, "=")
	switch name {
	case "_", "SHLVL", "PWD", "OLDPWD":
		return true
	}
	return false
}

// key is the name of the shared server: a hash with the user's secret. It tells others nothing about the environment,
// and two different identities have the same key with a probability of 2^-128.
func (i identity) key(secret [16]byte) string {
	var b []byte
	add := func(kind byte, text string) {
		b = append(b, kind)
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	add('v', strconv.Itoa(wireVersion))
	for _, w := range i.words {
		add('w', w)
	}
	add('d', i.directory)
	for _, n := range []uint64{i.device, i.inode, uint64(i.uid), i.host.PIDNS} {
		add('n', strconv.FormatUint(n, 10))
	}
	add('b', i.host.Boot)
	add('g', i.gateway.String())
	env := make([]string, 0, len(i.env))
	for _, e := range i.env {
		if !isPassing(e) {
			env = append(env, e)
		}
	}
	sort.Strings(env)
	for _, e := range env {
		add('e', e)
	}
	sum := keyedHash(secret, b)
	return hex.EncodeToString(sum[:])
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
	sum := keyedHash([16]byte{}, []byte(class))
	return hex.EncodeToString(sum[:4])
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
