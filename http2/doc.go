// Package http2 reads and writes the frames of HTTP/2 (RFC 9113) as far as a proxy needs it. The proxy passes some
// streams on and answers others itself.
//
// Blocks of header fields are decoded on one side and encoded anew for the other (HPACK, RFC 7541). The tables of both
// sides stay right when a stream is not passed on. What is written never refers to a table that changes. Whatever
// breaks the rules of a frame is an error, and so is what is longer than announced. What the RFC requires a reader to
// ignore is skipped. Streams and windows are the caller's.
package http2
