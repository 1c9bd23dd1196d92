package proc

// Process is one entry of a Snapshot.
type Process struct {
	Stat
	// UID is the effective user.
	UID int
	// Args is the command line, nil when it is empty, cannot be read or was not asked for.
	Args []string
}
