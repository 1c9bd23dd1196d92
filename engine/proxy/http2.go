package proxy

import (
	"io"
	"time"
)

// Types of frames of HTTP/2, and a code of errors (RFC 9113, sections 6 and 7).
const (
	frameHeaders   = 1
	frameSettings  = 4
	frameGoAway    = 7
	http11Required = 0xd
)

// maxFrames is how many frames a client may send before its first request.
const maxFrames = 16

// refuseHTTP2 tells a client that speaks HTTP/2 to speak HTTP/1.1, in frames that it understands. It answers the first
// request, because a client that is told earlier may not say why it failed. It reports false, for request to return.
func (l *link) refuseHTTP2(err error) bool {
	text := "mcp-tether: " + err.Error()
	goAway := append([]byte{0, 0, byte(8 + len(text)), frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, http11Required}, text...)
	settings := []byte{0, 0, 0, frameSettings, 0, 0, 0, 0, 0}
	if _, err := l.client.Write(settings); err != nil || l.client.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return false
	}
	l.skipToRequest()
	if _, err := l.client.Write(goAway); err == nil {
		linger(l.client)
	}
	return false
}

// skipToRequest reads the rest of the client's preface and its frames up to the first request, as far as they come.
func (l *link) skipToRequest() {
	const preface = "SM\r\n\r\n"
	_, err := l.fromClient.Discard(len(preface))
	for n := 0; n < maxFrames && err == nil; n++ {
		var head [9]byte
		if _, err = io.ReadFull(l.fromClient, head[:]); err != nil || head[3] == frameHeaders {
			return
		}
		_, err = l.fromClient.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
	}
}
