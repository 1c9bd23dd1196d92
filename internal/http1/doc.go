// Package http1 reads HTTP/1.1 as far as a relay and a small client need it: heads, and where a body ends.
//
// The engines are written in Go, so net/http is the reference. In some cases net/http is lenient and no client needs it
// (folded lines, a transfer encoding under HTTP/1.0). There this package is strict: a request that two readers may
// understand differently is a way past the labels. Where a reader here stops, the connection has to end: what follows
// is neither passed on nor read. Nothing here opens a connection.
package http1
