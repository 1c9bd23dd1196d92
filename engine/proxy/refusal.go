package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"mcp-tether/engine"
)

// refusal is an error response by the proxy instead of the engine.
type refusal struct {
	status int
	err    error
}

// lingerTime is how long a refused client has to read the response. It may still be sending, and closing a socket with
// unread bytes would discard the response. net/http waits as long.
const lingerTime = 500 * time.Millisecond

// send sends the response, in the form of both docker's API and podman's, and ends the connection.
func (r refusal) send(client net.Conn, withBody bool) {
	text, err := json.Marshal(map[string]any{"message": "mcp-tether: " + r.err.Error(), "cause": "mcp-tether", "response": r.status})
	if err != nil {
		text = []byte("{}")
	}
	response := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		r.status, reason(r.status), len(text))
	if withBody {
		response += string(text)
	}
	if _, err := io.WriteString(client, response); err != nil {
		return // the client has hung up
	}
	if engine.CloseWrite(client) != nil || client.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, client) // until the client hangs up, or the deadline
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
