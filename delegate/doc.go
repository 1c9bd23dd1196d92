// Package delegate hands work for a user to a child process that is that user.
//
// What a user has written or runs is dangerous to read for root. A link may lead anywhere, a file may be a device, a
// record may name the processes of others. So root never looks. It starts this program again as the user, with the
// user's rights and nothing else. It takes what comes back through one pipe for the word of that user.
//
//	user.go            whom the child is to be
//	run_linux.go       start it, and take a bounded answer in a bounded time
//	confine_linux.go   what the child gives up before it does anything
package delegate
