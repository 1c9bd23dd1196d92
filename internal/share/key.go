package share

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/session"
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

func digest(secret [16]byte, text []byte) string {
	sum := session.KeyedHash(secret, text)
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

// handshake is what a client's first line says of its handshake: how it begins, with which protocol version and capabilities. From
// 2026-07-28 on each request says so, and there is no handshake, but a client may ask for it first (server/discover).
func handshake(first []byte) part {
	says := func(path ...string) string { return mcp.Canonical(mcp.ValueAt(first, path...)) }
	words := []string{mcp.MethodInitialize, says("params", "protocolVersion"), says("params", "capabilities")}
	if says("method") != strconv.Quote(mcp.MethodInitialize) {
		words = []string{"", says("params", "_meta", mcp.MetaVersion), says("params", "_meta", mcp.MetaCapabilities)}
		if words[1] != "" && says("method") == strconv.Quote(mcp.MethodDiscover) {
			words[0] = mcp.MethodDiscover
		}
	}
	return part{"handshake", words}
}
