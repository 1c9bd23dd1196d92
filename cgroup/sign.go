package cgroup

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// signature is the extended attribute that tells who has made a leaf: an empty one has nothing else to tell it. Directories of
// cgroups have such attributes since Linux 5.7. Only the owner can write it.
const signature = "user.mcp-tether"

// maxSignature bounds what is read of it, in bytes.
const maxSignature = 256

// Sign notes in the leaf who has made it. Where that cannot be, an empty leaf stays unknown. A nil leaf needs none.
func (l *Leaf) Sign(maker string) {
	if l != nil {
		_ = unix.Setxattr(l.self(), signature, []byte(maker), 0)
	}
}

// Signed is what Sign has noted, "" for nothing.
func (l *Leaf) Signed() string {
	var b [maxSignature]byte
	n, err := unix.Getxattr(l.self(), signature, b[:])
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// self is the leaf that was opened, whatever has its name by now.
func (l *Leaf) self() string { return "/proc/self/fd/" + strconv.Itoa(l.fd) }
