// Package argv knows how mcp-tether starts itself: its own command lines, as far as they must be understood without a flag
// parser, and a child that is another user.
//
// An anchor asks it whether an anchor is wanted and hands over to the supervisor. Other packages read command lines in the
// process table or in a gateway's configuration.
//
// It is dangerous for root to read what a user has written or runs. A link may lead anywhere, a file may be a device, a
// record may name the processes of others. So root never looks. It starts this program again, which becomes the user and
// runs no command of that user's choice. What comes back through one pipe is that user's word.
//
//	delegate.go  root's side: a bounded answer in a bounded time
//	become.go    the child's side: what it gives up before it does anything
package argv
