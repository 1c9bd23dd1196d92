package mux

import (
	"fmt"
	"strconv"
	"strings"

	"mcp-tether/internal/mcp"
)

// Codes of errors (JSON-RPC 2.0, section 5.1).
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
)

// numberOf is the number of ours that an id or a token repeats; 0, which is none of them, if it repeats none. Some
// programs repeat a number as a string, which the SDKs accept.
func numberOf(id string) int64 {
	n, _ := strconv.ParseInt(strings.Trim(id, `"`), 10, 64)
	return n
}

// put is the edit that puts a text in the place of a value, if that is there.
func put(value mcp.Span, with string) mcp.Edit { return mcp.Edit{Span: value, With: with} }

func errorLine(id string, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, mcp.Quote(message))
}
