// Package reap finds what outlived its session, says why it thinks so, and ends what is proven.
//
// Home-made sweepers kill by name, by age or by ppid == 1, and hit live sessions. Here a pass reads the machine once
// (gather.go). Pure rules, a file for each class, turn what was read into findings (rules.go); index.go has their tables, and tree.go
// what belongs to a finding. Every finding carries its evidence in words. Only the proven classes are ended, by package teardown, which
// checks each process once more before each signal. What could not be read is unknown, and what is unknown is spared.
//
//	record     a record whose lease is free: its supervisor is dead
//	mark       the environment names a session without supervisor, and a gateway that is dead
//	cgroup     a cgroup leaf of ours whose session is dead
//	container  an engine has a container with our label, and the session in the label is dead
//	severed    a known server that was never wrapped: no gateway, and no process can write to its stdin any more
//	dropped    like severed, but its gateway lives
//	suspect    like severed or container, but without the proof: only reported
//	surplus    a living gateway with many servers of one kind: only reported
//
// The engines are asked while the process table is read (containers_gather.go), and what they have goes through
// the rules like the rest (containers.go). A label can be copied, and an engine can be shared. So the proof is labels of this machine
// that were written when the engine created the container.
package reap
