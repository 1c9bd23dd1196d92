// Package http2 reads and writes the frames of HTTP/2 (RFC 9113) as far as a proxy needs it. The proxy passes some
// streams on and answers others itself.
//
// Blocks of header fields are decoded on one side and encoded anew for the other (HPACK, RFC 7541). So the tables of
// both sides stay right when a stream is not passed on. What is written never refers to a table that changes. A frame
// that breaks the rules, or that is longer than announced, is an error. What the RFC requires a reader to ignore is
// skipped. Streams and windows are left to the caller.
package http2
