package http2

import (
	"errors"
	"strings"
)

// Field is one header field. A sensitive field must stay out of every table.
type Field struct {
	Name, Value string
	Sensitive   bool
}

// IsPseudo reports whether a field is no header field but a part of the request or response line.
func (f Field) IsPseudo() bool { return strings.HasPrefix(f.Name, ":") }

// size is what a field counts for (RFC 7541, section 4.1), in bytes.
func (f Field) size() int { return len(f.Name) + len(f.Value) + 32 }

// tableSize is how much a table of fields may hold, in bytes: what every reader has room for, unless it says otherwise.
const tableSize = 4 << 10

// errFields says that a block of fields cannot be decoded.
var errFields = errors.New("fields that cannot be decoded")

// decoder decodes blocks of fields (RFC 7541), one after the other. Its table holds what the other side has put there.
//
// There is a library for that, but every session would pay for it when it starts. It fills maps that only an encoder
// needs, 40 KiB in the two processes of a session. The tests compare this decoder with the library's.
type decoder struct {
	table []Field // the newest is the last
	held  int     // size of the table
	most  int     // what it may have
}

func newDecoder() *decoder { return &decoder{most: tableSize} }

// decode returns the fields of a block, which together may have up to limit bytes.
func (d *decoder) decode(b []byte, limit int) (fields []Field, err error) {
	for first := true; len(b) > 0; first = false {
		// A block may begin with one new size of the table, and with more of them while the table is empty. RFC 7541, section
		// 4.2, allows two; Go's library, with which the engines read, does not (golang.org/x/net/http2/hpack).
		if b[0]&0xe0 == 0x20 && len(fields) == 0 && (first || d.held == 0) {
			var n int
			if n, b, err = integer(b, 5); err != nil || n > tableSize {
				return nil, errFields
			}
			d.most = n
			d.evict()
			continue
		}
		var f Field
		if f, b, err = d.field(b); err != nil {
			return nil, err
		}
		// A short block may refer to a long field many times.
		if limit -= f.size(); limit < 0 {
			return nil, errFields
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// field decodes the first field of a block, and returns what follows.
func (d *decoder) field(b []byte) (f Field, rest []byte, err error) {
	bits, keep := 4, false
	switch {
	case b[0]&0x80 != 0:
		bits = 7
	case b[0]&0x40 != 0:
		bits, keep = 6, true
	case b[0]&0x20 != 0:
		return f, nil, errFields // a new size of the table, where none may stand
	case b[0]&0x10 != 0:
		f.Sensitive = true
	}
	i, rest, err := integer(b, bits)
	if err != nil {
		return f, nil, err
	}
	if bits == 7 {
		f, err = d.at(i)
		return f, rest, err
	}
	if i == 0 {
		f.Name, rest, err = text(rest)
	} else {
		var named Field
		named, err = d.at(i)
		f.Name = named.Name
	}
	if err != nil {
		return f, nil, err
	}
	f.Value, rest, err = text(rest)
	if err == nil && keep {
		d.table = append(d.table, f)
		d.held += f.size()
		d.evict()
	}
	return f, rest, err
}

// at returns the field with an index. The static table comes first, and then the other one, from its newest field on.
func (d *decoder) at(i int) (Field, error) {
	if i > 0 && i <= len(staticTable) {
		return staticTable[i-1], nil
	}
	if i -= len(staticTable); i > 0 && i <= len(d.table) {
		return d.table[len(d.table)-i], nil
	}
	return Field{}, errFields
}

// evict removes the oldest fields until the table is no larger than it may be.
func (d *decoder) evict() {
	for d.held > d.most {
		d.held -= d.table[0].size()
		d.table[0] = Field{}
		d.table = d.table[1:]
	}
}

// integer decodes an integer that begins with the last bits of the first byte (section 5.1).
func integer(b []byte, bits int) (n int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errFields
	}
	most := 1<<bits - 1
	if n = int(b[0]) & most; n < most {
		return n, b[1:], nil
	}
	for i, c := range b[1:] {
		if i == 4 {
			break // more than any length or index
		}
		if n += int(c&0x7f) << (7 * i); c < 0x80 {
			return n, b[i+2:], nil
		}
	}
	return 0, nil, errFields
}

// text decodes a string (section 5.2).
func text(b []byte) (s string, rest []byte, err error) {
	n, rest, err := integer(b, 7)
	if err != nil || n > len(rest) {
		return "", nil, errFields
	}
	if b[0]&0x80 == 0 {
		return string(rest[:n]), rest[n:], nil
	}
	plain, err := unhuffman(rest[:n])
	return string(plain), rest[n:], err
}

// unhuffman decodes a string in the Huffman code. The string is padded with less than a byte of ones.
func unhuffman(b []byte) (out []byte, err error) {
	code, first, index, length := 0, 0, 0, 0 // of the bits since the last symbol; the first code of that length and its symbol
	ones := true
	for i := range len(b) * 8 {
		bit := int(b[i/8]>>(7-i%8)) & 1
		ones = ones && bit == 1
		length++
		code, first = code<<1|bit, first<<1
		count := int(huffmanCounts[length])
		if code-first >= count {
			first, index = first+count, index+count
			continue
		}
		if index += code - first; index >= len(huffmanSymbols) {
			return nil, errFields // the symbol for the end of a string
		}
		out = append(out, huffmanSymbols[index])
		code, first, index, length, ones = 0, 0, 0, 0, true
	}
	if length > 7 || !ones {
		return nil, errFields
	}
	return out, nil
}
