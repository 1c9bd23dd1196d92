package testkit

import "mcp-tether/internal/stage"

// The cgroups of tests, as the stage finds and ends them.
var (
	OwnCgroup      = stage.OwnCgroup
	WritableCgroup = stage.WritableCgroup
	KillCgroup     = stage.KillCgroup
	RemoveCgroup   = stage.RemoveCgroup
)
