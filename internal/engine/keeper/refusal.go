package keeper

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"mcp-tether/internal/engine"
)

// The statuses of refusals.
const (
	badRequest   = "400 Bad Request"
	tooLarge     = "413 Content Too Large"
	headTooLarge = "431 Request Header Fields Too Large"
	badGateway   = "502 Bad Gateway"
	unavailable  = "503 Service Unavailable"
)

// refusal is an error response by the proxy instead of the engine.
type refusal struct {
	status string // code and reason phrase
	err    error
}

// lingerTime is how long a refused client has to read the response. It may still be sending, and closing a socket with
// unread bytes would discard the response. net/http waits as long.
const lingerTime = 500 * time.Millisecond

// send sends the response, in the form of both docker's API and podman's, and ends the connection.
func (f refusal) send(client net.Conn, r engine.Request) {
	text, err := json.Marshal(map[string]any{"message": "mcp-tether: " + f.err.Error(), "cause": "mcp-tether", "response": json.Number(f.status[:3])})
	if err != nil {
		text = []byte("{}")
	}
	response := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		f.status, len(text))
	if r.Method != "HEAD" {
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
