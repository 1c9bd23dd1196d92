// Package doctor checks what this machine can do for sessions and which clients are not wrapped. Each check says what
// it found and, unless all is well, what to do about it. It changes nothing, apart from an empty cgroup that it makes
// and removes again: nothing else shows whether one can be made.
//
// A new check is a function that returns a Check with its cure, and a line in machine or in all. It must be bounded in time, and leave
// nothing.
//
//	all.go            every check, each bounded in time
//	check.go          one finding, and how a list of them is printed
//	verdict.go        what all findings come to
//	machine.go        kernel, cgroups, /proc, records
//	environment.go    the program, the engine and the clients of the user
package doctor
