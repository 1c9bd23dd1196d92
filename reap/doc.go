// Package reap finds what outlived its session, says why it thinks so, and ends what is proven.
//
// Home-made sweepers kill by name, by age or by ppid == 1, and hit live sessions. Here a pass reads the host once
// (gather_linux.go), pure rules turn what was read into findings (rules.go), and every finding carries its evidence in
// words. Only the proven classes are ended, by package teardown, which checks each process once more before each
// signal. Whatever could not be read is unknown, and unknown is spared.
//
//	record     a record whose lease is free: its supervisor is dead
//	mark       the environment names a session without supervisor, and a gateway that is dead
//	cgroup     a leaf of ours whose session is dead
//	container  our label on what a container engine has, whose session is dead
//	severed    never wrapped: a known server without gateway whose stdin nobody can write to any more
//	suspect    like severed or container, but without the proof: only reported
//	surplus    a living gateway with many servers of one kind: only reported
//
// The engines are asked while the process table is read (containers_gather_linux.go), and what they have goes through
// the rules like the rest (containers.go). A label can be copied, and an engine can be shared: it takes a recorded id, or
// labels of this machine that were written when the engine created the container.
package reap
