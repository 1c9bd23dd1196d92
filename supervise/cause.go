package supervise

// cause is why a session ends.
type cause uint8

const (
	noCause cause = iota
	causeServer
	causeStdin
	causeStdout
	causeGateway
	causeAnchor
	causeSignal
	causeSupervisor
	causeStart
	causes
)

// String is the name in the log and in the record.
func (c cause) String() string {
	return [causes]string{
		noCause: "", causeServer: "server-exited", causeStdin: "stdin-closed", causeStdout: "stdout-closed",
		causeGateway: "gateway-gone", causeAnchor: "anchor-gone", causeSignal: "signal", causeSupervisor: "supervisor-gone",
		causeStart: "start-failed",
	}[c]
}

// unless returns the cause that counts when another one comes: the first, with two exceptions. Another cause replaces a
// closed standard input as long as the server may still go on. An owner that is gone always replaces a closed standard
// output: the kernel closes a dying gateway's pipes before its pidfd tells of the death.
func (c cause) unless(other cause, mayGoOn bool) cause {
	switch {
	case c == noCause,
		c == causeStdin && other != causeServer && mayGoOn,
		c == causeStdout && (other == causeGateway || other == causeAnchor):
		return other
	}
	return c
}
