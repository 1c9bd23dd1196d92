// Package cgroup makes, fills and ends cgroup v2 leaves.
//
// A leaf is created below the cgroup that the supervisor already is in. So the limits and the end of the gateway's unit
// still cover the server. No controller is enabled for it. A leaf is only a set of processes that no member can leave
// by forking. The kernel ends it with one write (cgroup.kill, Linux 5.14).
package cgroup
