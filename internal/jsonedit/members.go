package jsonedit

import (
	"bytes"
	"encoding/json"
	"iter"
)

const whiteSpace = " \t\r\n"

// member is where a member of an object stands in a text: "name" is text[start:nameEnd], its value text[value:end].
type member struct {
	name                       string
	start, nameEnd, value, end int
}

// checkObject says what is wrong with a text that should be one JSON object and white space around it.
func checkObject(text []byte) error {
	if !json.Valid(text) {
		return json.Unmarshal(text, &struct{}{}) // for the error
	}
	if text[skipSpace(text, 0)] != '{' {
		return ErrNotObject
	}
	return nil
}

// members goes through the members of an object, which has been checked.
func members(text []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		for i := skipSpace(text, skipSpace(text, 0)+1); text[i] != '}'; {
			m := member{start: i, nameEnd: skipValue(text, i)}
			_ = json.Unmarshal(text[m.start:m.nameEnd], &m.name) // it is a valid string
			m.value = skipSpace(text, skipSpace(text, m.nameEnd)+1)
			m.end = skipValue(text, m.value)
			if !yield(m) {
				return
			}
			if i = skipSpace(text, m.end); text[i] == ',' {
				i = skipSpace(text, i+1)
			}
		}
	}
}

// skipSpace returns the index of the first byte from i on that is no white space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && bytes.IndexByte([]byte(whiteSpace), text[i]) >= 0 {
		i++
	}
	return i
}

// skipValue returns the index of the first byte after the value that begins at i.
func skipValue(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return i + len(text[i:]) - len(bytes.TrimLeft(text[i:], "+-.0123456789aeflnrstuE"))
			}
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}
