package front

// cause is why a session ends.
type cause uint8

const (
	noCause cause = iota
	causeServer
	causeStdin
	causeStdout
	causeGateway
	causeSignal
	causeTooLong
	causeChanged
	causes
)

// String is the name in the log and in the record.
func (c cause) String() string {
	return [causes]string{
		noCause: "", causeServer: "server-exited", causeStdin: "stdin-closed", causeStdout: "stdout-closed",
		causeGateway: "gateway-gone", causeSignal: "signal", causeTooLong: "message-too-long", causeChanged: "server-changed",
	}[c]
}

// listens reports whether the client may still read when a session ends with this cause.
func (c cause) listens() bool { return c != causeStdout && c != causeGateway }

// unless returns the cause that counts when another one comes: the first, with two exceptions. Another cause replaces a
// closed standard input as long as the server was not asked to end. A gateway that is gone always replaces a closed standard
// output: the kernel closes a dying gateway's pipes before its pidfd tells of the death.
func (c cause) unless(other cause, asked bool) cause {
	switch {
	case c == noCause,
		c == causeStdin && other != causeServer && !asked,
		c == causeStdout && other == causeGateway:
		return other
	}
	return c
}
