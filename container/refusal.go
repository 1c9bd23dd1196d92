package container

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// refusal is an answer that the engine has no part in.
type refusal struct {
	status int
	err    error
}

// lingering is how long a refused client has to read why. It may still be sending what nobody will read, and a socket
// that is closed on unread bytes takes the answer with it. net/http waits as long.
const lingering = 500 * time.Millisecond

// tell says to the client why, in the words of both docker's API and podman's, and then nothing more.
func (r refusal) tell(client net.Conn, withBody bool) {
	text, err := json.Marshal(map[string]any{"message": "mcp-tether: " + r.err.Error(), "cause": "mcp-tether", "response": r.status})
	if err != nil {
		text = []byte("{}")
	}
	answer := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		r.status, reason(r.status), len(text))
	if withBody {
		answer += string(text)
	}
	if _, err := io.WriteString(client, answer); err != nil {
		return // it has gone
	}
	if halfClose(client) != nil || client.SetReadDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, client) // ends with the client or the deadline, and either is fine
}

func reason(status int) string {
	switch status {
	case 400:
		return "Bad Request"
	case 413:
		return "Content Too Large"
	case 415:
		return "Unsupported Media Type"
	case 431:
		return "Request Header Fields Too Large"
	case 502:
		return "Bad Gateway"
	case 503:
		return "Service Unavailable"
	}
	return "Refused"
}
