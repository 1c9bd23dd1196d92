// Package cgroup makes, fills and ends cgroup v2 leaves.
//
// A leaf is created below the cgroup that the supervisor already is in, so that whatever limits or kills the gateway's
// own unit still covers the server. No controller is enabled for it: a leaf is only a set that no member can leave by
// forking, and that the kernel ends in one stroke (cgroup.kill, Linux 5.14).
package cgroup
