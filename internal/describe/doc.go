// Package describe says for people what a process or a container is, in the one form that ps and reap share.
//
// Names, command lines and states are text of others. Text makes them fit for a terminal.
package describe
