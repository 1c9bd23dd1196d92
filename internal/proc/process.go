package proc

// Process is one entry of a Snapshot.
type Process struct {
	Stat
	// UID is the effective user.
	UID int
	// Args is the command line, nil when it is empty, cannot be read or was not asked for.
	Args []string
	// Env are the values of the variables that were asked for, "" for one that is not set; nil when they cannot be read.
	Env []string
	// Stuck says that the process kept its readers waiting: its command line and environment are unknown.
	Stuck bool
}

// AdopterName is the command name of the copy that Child.Adopts puts above a child. It has its parent's command line.
const AdopterName = "mcp-tether-wait"

// Wanted says what a Snapshot reads of a process beside its stat and owner.
type Wanted struct {
	// Args and Env say, by a process's effective user, whether its command line and its environment are read.
	Args, Env func(uid int) bool
	// Names are the variables to look for.
	Names []string
}
