package mcp

import "fmt"

// Codes of errors (JSON-RPC 2.0, section 5.1). MCP's own are for other things (2026-07-28, basic/index, "Error Codes").
const (
	CodeParse    = -32700
	CodeInvalid  = -32600
	CodeParams   = -32602
	CodeInternal = -32603
)

// ErrorReply is the line, with its newline, that answers a request with an error. id is JSON.
func ErrorReply(id string, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, Quote(message))
}

// PingReply is the line, with its newline, that answers a ping. id is JSON.
func PingReply(id string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
}

// Cancelled is the message, without a newline, that takes back a request. id is JSON.
func Cancelled(id, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":%s}}`, MethodCancelled, id, Quote(reason))
}
