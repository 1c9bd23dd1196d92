//go:build !linux

package reap

import "time"

// askUsers needs Linux, as the pass itself.
func (r *Report) askUsers(*host, *Options) {}

// ForgetAsRoot is Forget.
func ForgetAsRoot(runtime, id string, _ time.Duration) error { return Forget(runtime, id) }
