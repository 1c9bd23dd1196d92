// Package describe says for people what a process or a container is, in the one form that ps and reap share.
//
// Memory and processor time come from gopsutil, which opens /proc by itself. It is slow and coarse, and knows a process by
// its bare pid. So it is good for what is shown, and nothing is decided on it: that rests on packages proc and cgroup.
//
// Names, command lines and states are text of others. Text makes them fit for a terminal.
package describe
