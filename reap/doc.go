// Package reap finds what outlived its session, says why it thinks so, and ends what is proven.
//
// Home-made sweepers kill by name, by age or by ppid == 1, and hit live sessions. Here a pass reads the host once
// (gather_linux.go), pure rules turn what was read into findings (rules.go), and every finding carries its evidence in
// words. Only the proven classes are ended, by package teardown, which checks each process once more before each
// signal. Whatever could not be read is unknown, and unknown is spared.
//
//	record   a record whose lease is free: its supervisor is dead
//	mark     the environment names a session without supervisor, and a gateway that is dead
//	cgroup   a leaf of ours whose session is dead
//	severed  never wrapped: a known server without gateway whose stdin nobody can write to any more
//	suspect  like severed, but without the proof: only reported
//	surplus  a living gateway with many servers of one kind: only reported
package reap
