// Package stage plays sessions of a gateway and its server with real processes, and tells who is left afterwards.
//
// A stage has a gateway, which may be ended in any way, and below it sessions: the wrapper, or bare the server, and all
// that the server starts. The server is a tree of the fixture (e2e/fixture), which misbehaves on demand.
//
// Every process of a session inherits its lifeline, a FIFO open for writing. The end of file says that the last one is
// dead. A process that closes all descriptors holds a lock in place of the lifeline. So nobody has to poll or to sleep,
// and a process that cleared its environment and left its parents is still counted.
//
// What is used here is the kernel's word alone. Nothing of the code under test decides who is left.
package stage
