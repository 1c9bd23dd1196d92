package proc

// Far says what became of the other end of a process's standard input.
type Far uint8

// The answers. Only Severed proves anything.
const (
	FarUnknown Far = iota // it cannot be known: no permission, another kind of file, unread data, another network namespace
	FarHeld               // some process holds it
	Severed               // no process holds it, and none ever can again
)

// Stdin is the state of a process's standard input.
type Stdin struct {
	Far Far
	// Why says how it was found out, or why not.
	Why string
	// Peer is the inode of the pipe, or of the socket's other end; 0 when not known.
	Peer uint64
	// Socket says that Peer is a socket.
	Socket bool
}
