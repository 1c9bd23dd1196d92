package mux

import (
	"slices"

	"mcp-tether/internal/mcp"
)

// Client names a client; the caller gives each its number, which is positive and never used again.
type Client int64

// Server is the Client that stands for the server.
const Server Client = 0

// several stands for more clients than one.
const several Client = -1

// Out is a line that is to be written.
type Out struct {
	// To is the client that gets it, or Server.
	To Client
	// Line is the whole line with its newline. Several Outs may share it, so it must not be changed; the mux does not
	// change it either.
	Line []byte
	// From is the client that a line for the server comes from, 0 for none. Ordered says that it must stay behind all others that
	// are ordered; the order of the rest counts for one client only.
	From    Client
	Ordered bool
	// Reply says that the mux itself answers a request of the server by this line.
	Reply bool
}

// Bounds of what one client can make the mux keep: open requests, and bytes of requests that wait for the server. A request beyond
// them is answered with an error.
const (
	maxOpen = 10_000
	maxHeld = 64 << 20
)

// Mux is what is known of the clients and of the server. Not for concurrent use. A call's []Out, not its lines, is valid
// until the next call.
type Mux struct {
	// Alone says that there is one client, and one server after another. Lines pass as they are then, with their ids. Set it
	// before anything is said.
	Alone bool
	// Load gives what earlier sessions know of the server that answers such an initialize, which is empty for a client without a
	// handshake. Save adds to that; nil says that it was wrong. Both are nil where each server is started.
	Load func(initialize []byte) Published
	Save func(initialize []byte, news *Published)

	// clients are there, in the order in which they came.
	clients []*client
	openRequests
	handshake handshake
	server    server
	roots     roots
	lists     map[string]List
	// used says that a message that matters has passed.
	used bool
	// told says that the client was told something in the place of a server.
	told bool
	out  []Out
}

// openRequests are those that wait for an answer, of either side. All ids are in one spelling.
type openRequests struct {
	// lastID is the number of the last call, lastAsk of the last ask, and ownIDs of the last id of our own for a client that is alone.
	lastID, lastAsk, ownIDs int64
	// calls are what the server is asked, by the id that it knows. asks are what clients are asked, by the id that they know.
	calls map[string]*call
	asks  map[string]*ask
	// held are the calls that wait for the server, in order.
	held []*call
}

// ids are those of a request. One side asks the mux, which asks the other.
type ids struct {
	// n is its number. ours is the id, and the progress token, by which the other side knows it: the number, but for a client that is
	// alone.
	n    int64
	ours string
	// id is its id as it came, and key the same in one spelling. token is the progress token as JSON that came with it, "" if none did.
	id, key, token string
}

// New makes a mux without clients, for a server that was sent nothing.
func New() *Mux {
	return &Mux{
		openRequests: openRequests{calls: map[string]*call{}, asks: map[string]*ask{}},
		server:       newServer(), lists: map[string]List{},
	}
}

// client is what is known of a client.
type client struct {
	id Client
	// initialized: its initialize is answered. modern: it uses requests without a handshake.
	initialized, modern bool
	// calls are its requests that have no answer and were not cancelled, by their id in one spelling; the latest of several with one.
	calls map[string]*call
	// held counts the bytes that are kept for the client.
	held int64
	// level is the log level that it asked for, of those in levels; 0: none.
	level int
	// uris are the resources that it is subscribed to, or about to be, with the number of the request that asked for it.
	uris map[string]int64
}

// Attach takes a client that has said nothing yet.
func (m *Mux) Attach(id Client) {
	m.clients = append(m.clients, &client{id: id, calls: map[string]*call{}, uris: map[string]int64{}})
}

// client is a client that is there, or nil.
func (m *Mux) client(id Client) *client {
	for _, c := range m.clients {
		if c.id == id {
			return c
		}
	}
	return nil
}

// Detach forgets a client. Its calls are cancelled, and its subscriptions and log level end.
func (m *Mux) Detach(id Client) []Out {
	m.begin()
	c := m.client(id)
	if c == nil {
		return nil
	}
	m.clients = slices.DeleteFunc(m.clients, func(other *client) bool { return other == c })
	m.abandonCalls(c)
	m.abandonAsks(c)
	m.abandonTasks(c)
	m.unsubscribeAll(c)
	return m.out
}

// FromClient takes a line of a client, with its newline if it has one. The line may change after the call.
func (m *Mux) FromClient(id Client, line []byte) []Out {
	m.begin()
	c := m.client(id)
	if c == nil {
		return nil
	}
	m.clientSays(c, mcp.Parse(line))
	return m.out
}

// FromServer takes a line of the server, with its newline if it has one.
func (m *Mux) FromServer(line []byte) []Out {
	m.begin()
	switch msg := mcp.Parse(line); msg.Kind {
	case mcp.Request:
		m.serverAsks(msg)
	case mcp.Response:
		m.serverAnswers(msg)
	case mcp.Notification:
		m.serverTells(msg)
	case mcp.Opaque, mcp.Unclear: // Noise, or nothing that could be said to be for one client.
		m.passToClient(msg)
	}
	return m.out
}

// clientSays takes one message of a client.
func (m *Mux) clientSays(c *client, msg mcp.Message) {
	switch {
	case msg.Kind == mcp.Request && m.Alone && msg.ID == mcp.IDNull: // Its answer could not be told from others.
		m.passToServer(c, msg)
	case msg.Kind == mcp.Request:
		m.clientAsks(c, msg)
	case msg.Kind == mcp.Response:
		m.clientAnswers(c, msg)
	case msg.Kind == mcp.Notification:
		m.clientTells(c, msg)
	case m.Alone:
		m.passToServer(c, msg)
	case len(msg.Raw) > 0 && msg.Raw[0] == '[': // 2025-03-26, basic/index, "Batching"; no later version has it.
		m.refuse(c, mcp.IDNull, mcp.CodeInvalid, "batches are not taken here: send each message in a line of its own")
	case msg.Kind == mcp.Unclear:
		m.refuse(c, mcp.IDNull, mcp.CodeParse, "this line cannot be read")
	}
}

// Open counts the requests of a client that have no answer yet and were not cancelled. It includes initialize, and what waits
// for it. It is 0 for an unknown client.
func (m *Mux) Open(id Client) int {
	if c := m.client(id); c != nil {
		return len(c.calls)
	}
	return 0
}

// Calls reports whether a request of a client is open, beside subscriptions of 2026-07-28, which have no end of their own.
func (m *Mux) Calls() bool {
	for _, k := range m.calls {
		if k.client != nil && k.method != mcp.MethodListen {
			return true
		}
	}
	return false
}

// noteKnown records that the server knows a client.
func (m *Mux) noteKnown(c *client) {
	switch m.server.sole {
	case 0, c.id:
		m.server.sole = c.id
	default:
		m.server.sole = several
	}
}

// begin starts a call of the mux.
func (m *Mux) begin() {
	clear(m.out)
	m.out = m.out[:0]
}

func (m *Mux) toServer(line []byte) {
	m.out = append(m.out, Out{To: Server, Line: line, Ordered: true})
}

func (m *Mux) toServerFrom(c *client, line []byte) {
	m.out = append(m.out, Out{To: Server, Line: line, From: c.id})
}

// replyToServer answers a request of the server that goes to no client.
func (m *Mux) replyToServer(line []byte) {
	m.out = append(m.out, Out{To: Server, Line: line, Ordered: true, Reply: true})
}

func (m *Mux) toClient(c *client, line []byte) { m.out = append(m.out, Out{To: c.id, Line: line}) }

// toAll gives a line to each client that knows the server.
func (m *Mux) toAll(line []byte) {
	for _, c := range m.clients {
		if c.initialized || c.modern {
			m.toClient(c, line)
		}
	}
}
