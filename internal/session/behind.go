package session

import (
	"strings"

	"mcp-tether/internal/proc"
)

// EnvBehind tells a session that it is the backend of a front, or the session of a shared server. No server gets to see it.
const EnvBehind = "MCP_TETHER_BEHIND"

// Behind is what stands before a session that is no gateway's own. It is the zero value for any other session.
type Behind struct {
	// Front is the id of the front's record; "" behind a host.
	Front string
	// Share is the place of the shared server's host; "" behind a front.
	Share string
	// Owner is one more process with whose end the session ends: the gateway of a host; zero for none. The gateway
	// of a front is found by climbing, because a front is a launcher.
	Owner proc.ID
}

// String is the value of EnvBehind.
func (b Behind) String() string { return strings.Join([]string{b.Front, b.Share, b.Owner.String()}, ",") }

// ParseBehind reads the value of EnvBehind. What it cannot read is the zero value: then nothing stands before the session.
func ParseBehind(text string) Behind {
	part := strings.Split(text, ",")
	if len(part) != 3 {
		return Behind{}
	}
	b := Behind{Front: part[0], Share: part[1]}
	if !ValidID(b.Front) {
		b.Front = ""
	}
	b.Owner, _ = proc.ParseID(part[2])
	return b
}
