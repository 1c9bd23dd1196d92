package share

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sort"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
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

// Environment is what of an environment means something to a server, sorted.
func Environment(all []string) []string {
	env := slices.DeleteFunc(slices.Clone(all), isPassing)
	sort.Strings(env)
	return env
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
	for _, e := range Environment(i.env) {
		add('e', e)
	}
	sum := session.KeyedHash(secret, b)
	return hex.EncodeToString(sum[:])
}

// className shortens a class for the name of a place. Where two classes get one name, the host sends away what does not fit.
func className(class string) string {
	sum := session.KeyedHash([16]byte{}, []byte(class))
	return hex.EncodeToString(sum[:4])
}
