package session

// Cause is why a session ends, in the words of log and record.
type Cause string

// The causes. docs/reference.md says what each means to a user.
const (
	NoCause         Cause = "" // it goes on
	CauseServer     Cause = "server-exited"
	CauseStdin      Cause = "stdin-closed"
	CauseStdout     Cause = "stdout-closed"
	CauseGateway    Cause = "gateway-gone"
	CauseAnchor     Cause = "anchor-gone"
	CauseSupervisor Cause = "supervisor-gone"
	CauseSignal     Cause = "signal"
	CauseStart      Cause = "start-failed"
	CauseTooLong    Cause = "message-too-long"
	CauseChanged    Cause = "server-changed"
)

// Unless returns the cause that counts when another one comes: the first, with two exceptions. Another cause replaces a
// closed standard input as long as the server may still go on. An owner that is gone always replaces a closed standard
// output: the kernel closes a dying gateway's pipes before its pidfd tells of the death.
func (c Cause) Unless(other Cause, mayGoOn bool) Cause {
	switch {
	case c == NoCause,
		c == CauseStdin && other != CauseServer && mayGoOn,
		c == CauseStdout && (other == CauseGateway || other == CauseAnchor):
		return other
	}
	return c
}
