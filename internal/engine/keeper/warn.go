package keeper

// maxWarnings are logged of a session: a client can cause as many as it likes.
const maxWarnings = 100

// warn logs an error, but not the same one twice in a row, and not too many.
func (k *Keeper) warn(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.warned == err.Error() {
		return
	}
	k.warned = err.Error()
	switch k.warnings++; {
	case k.warnings <= maxWarnings:
		k.o.Log.Warn().Err(err).Msg("container engine")
	case k.warnings == maxWarnings+1:
		k.o.Log.Warn().Msg("further warnings about the container engine are left out")
	}
}
