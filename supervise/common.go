package supervise

import (
	"github.com/rs/zerolog"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// common is what a session has in common with its tree: the options, the log, the poll set, and the record, which both
// fill in.
type common struct {
	opts Options
	id   string
	// page is what the processes of the session share; nil without an anchor.
	page   *waiting.Page
	above  above
	log    zerolog.Logger
	reader proc.Reader
	// polled is what the session waits for.
	polled pollSet
	onDisk
	// foreign are the children that were there before the session.
	foreign []proc.ID
	// sweeper ends dead sessions of the same user; zero when there is none.
	sweeper proc.ID
	// cause is why the session ends, NoCause while it does not, and code what it exits with.
	cause session.Cause
	code  int
}
