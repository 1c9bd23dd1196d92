package engine

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"
)

// The labels that the proxy adds to what a session creates.
const (
	LabelSession    = "mcp-tether.session"    // session id
	LabelGateway    = "mcp-tether.gateway"    // pid:start:boot:pidns
	LabelAnchor     = "mcp-tether.anchor"     // pid:start:boot:pidns; absent without anchor
	LabelSupervisor = "mcp-tether.supervisor" // pid:start:boot:pidns
	LabelMachine    = "mcp-tether.machine"    // MachineID; absent where there is none
	LabelCreated    = "mcp-tether.created"    // when the create was asked for, RFC 3339 with nanoseconds
)

// labelKeep is the label by which a client keeps an object. With the value "1" no session and no reap removes it.
const labelKeep = "mcp-tether.keep"

// MachineID identifies this machine to others that share an engine: 16 hexadecimal digits, or "" if there is no machine
// id. The id itself must be kept secret (machine-id(5)). The hash has 64 of its 128 bits. That is enough to tell
// machines apart, and too few to give the id back, whatever the hash function is.
func MachineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || id == "" || id == "uninitialized" {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("mcp-tether machine " + id))
	return fmt.Sprintf("%016x", h.Sum64())
}
