// Package delegate hands work for a user to a child process that is that user.
//
// It is dangerous for root to read what a user has written or runs. A link may lead anywhere, a file may be a device, a
// record may name the processes of others. So root never looks. It starts this program again, which becomes the user,
// with the user's rights and nothing else. It treats what comes back through one pipe as that user's word.
//
//	user.go     whom the child is to be
//	each.go     for many users in a bounded time
//	run.go      start it, and take a bounded answer in a bounded time
//	room.go     the cgroup that it cannot leave
//	become.go   what the child gives up before it does anything
package delegate
