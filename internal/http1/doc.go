// Package http1 reads HTTP/1.1 as far as a relay of one request and a small client need it: heads, and bodies as a whole.
//
// It is strict where net/http, which the engines are built with, is lenient and no client needs it. Nothing here opens a
// connection.
package http1
