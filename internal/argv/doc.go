// Package argv knows how mcp-tether starts itself: its own command lines, as far as they must be understood without a flag
// parser, and a child that is another user.
//
// The command line asks it whether a front or a shared server is wanted, and these start their session by it. Other packages read
// command lines in the process table or in a gateway's configuration.
//
// It is dangerous for root to read what a user has written or runs. A link may lead anywhere, a file may be a device, a
// record may name the processes of others. So root never looks. It starts this program again, which becomes the user and
// runs no command of that user's choice. What comes back through one pipe is that user's word.
//
// A row of Run is all that a new flag of run needs. The roles of role.go are between processes of one version, and may change.
//
//	flag.go, run.go         what a flag is, and those of run
//	words.go                a command line without a parser
//	front.go, share.go      what it asks for, and the command line of the session behind
//	role.go                 command lines between our own processes
//	delegate.go             root's side: a bounded answer in a bounded time
//	become.go               the child's side: what it gives up before it does anything
package argv
