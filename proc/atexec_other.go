//go:build !linux

package proc

// RestoreTimerSlack has nothing to restore where nothing was changed.
func RestoreTimerSlack() {}
