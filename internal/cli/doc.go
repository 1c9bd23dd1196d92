// Package cli is the command line: one file a command, and the choice of the role that this process plays. It parses
// flags, calls the rooms below, and prints what they return. Exit codes are decided here and taken by main.
//
// A new command is a row of the table in commands.go, and a file that makes one call. A new flag is a row of its command's table
// (of run, in package argv); then make generate. What a start of run passes through is counted in microseconds: no flag is read twice
// there, and nothing is prepared that help alone needs.
//
//	dispatch.go           which role: a user's command, or a process that another of ours has started
//	app.go, flags.go      the flag parser, and what its errors say
//	commands.go           all commands; help.go and completion.go say them
//	pick.go               which living sessions a command means
//	question.go           asking on a terminal
//	doctor_machine.go     what doctor asks of the machine; doctor_clients.go: of the clients' files
package cli
