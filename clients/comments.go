package clients

import "bytes"

// withoutComments gives JSON without the // and /* */ comments and the trailing commas that VS Code allows. What stands
// in strings stays.
func withoutComments(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			end := stringEnd(b, i)
			out = append(out, b[i:end]...)
			i = end - 1
		case b[i] == '/' && i+1 < len(b) && b[i+1] == '/':
			for i < len(b) && b[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case b[i] == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += 2 + end + 1
		case (b[i] == '}' || b[i] == ']'):
			out = append(trimComma(out), b[i])
		default:
			out = append(out, b[i])
		}
	}
	return out
}

// stringEnd is the index after the string that begins at start.
func stringEnd(b []byte, start int) int {
	for i := start + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// trimComma cuts white space at the end, and a comma before it.
func trimComma(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
		case ',':
			return b[:i]
		default:
			return b
		}
	}
	return b
}
