package supervise

import (
	"github.com/rs/zerolog"

	"mcp-tether/cgroup"
	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// common is what a session has in common with its trees: the options, the log, the poll set, and the record, which both
// fill in.
type common struct {
	opts      Options
	hand      argv.Handover
	inherited proc.AtExec
	log       zerolog.Logger
	sink      *sink
	reader    proc.Reader
	// polled is what the session waits for.
	polled pollSet
	lease  *session.Lease // nil where no record can be kept
	record session.Record
	// unread says that there is a record of the supervisor, which the recovering anchor could not read.
	unread bool
	// leafLeft says that a cgroup stays behind; the record names it for `reap`.
	leafLeft bool
	// leafInUse says that the last leaf stays because a process to keep has a session in it.
	leafInUse bool
	// sweeper ends dead sessions of the same user; zero when there is none.
	sweeper proc.ID
	// reserved is how many threads were started in advance.
	reserved int
	// degraded says that a weaker containment was logged.
	degraded bool
}

// leftovers are what earlier trees have left, for the next one or for the end of the session.
type leftovers struct {
	// scope is the scope of the next tree.
	scope teardown.Scope
	// leaf is a cgroup that could not be removed.
	leaf *cgroup.Leaf
	// containers says that containers may be left, and strays that processes are left.
	containers, strays bool
}
