//go:build !amd64 && !arm64

package proc

import "golang.org/x/sys/unix"

func forkLeader() int { return -int(unix.ENOSYS) }
