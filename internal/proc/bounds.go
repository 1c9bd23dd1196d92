package proc

import "time"

// What others have written is read in bounded time, and no more of it than this: records, configurations, histories, the memory of
// processes, the answers of engines and of children that are other users. So is what root's reap reads. Where a bound is met, what
// was asked for is unknown, which is said. Regular files alone are read, and no open waits for a writer (Dir, package clients).

// How long something may take that may never answer.
const (
	// StateTime is how long a home directory may hold up the start of a server.
	StateTime = time.Second
	// HistoryTime is how long it may hold up the end.
	HistoryTime = 3 * time.Second
	// FilesTime is how long the directories of records may hold up a pass of reap.
	FilesTime = 2 * time.Second
	// ConfigsTime is the same for the clients' configurations.
	ConfigsTime = 5 * time.Second
	// EngineTime is how long an engine has for an answer.
	EngineTime = 3 * time.Second
	// GlanceTime is the same where a person waits for a list of sessions.
	GlanceTime = 500 * time.Millisecond
	// LookUpTime is how long the machine's lists of users have for one.
	LookUpTime = 3 * time.Second
	// ChildTime is how long a child that is another user may take, beside the times that it is told to wait.
	ChildTime = 10 * time.Second
	// ChildrenTime is for all of them, where a person waits for a list of sessions.
	ChildrenTime = 5 * time.Second
	// A read of a process's memory takes microseconds. One that has not ended after so many pauses is given up. After a first
	// process that kept its readers waiting, fewer will do, since there may be many.
	memoryPause, memoryPauses = 50 * time.Millisecond, 6
)

// How much is read, in bytes.
const (
	// MaxRecord bounds a record.
	MaxRecord = 64 << 10
	// MaxSharing bounds what a host has written for ps.
	MaxSharing = 4 << 20
	// MaxHistory is where a history is full. One that others have filled is read up to twice that, from its end.
	MaxHistory = 1 << 20
	// MaxConfig bounds a configuration. Claude Code's grows with use.
	MaxConfig = 8 << 20
	// MaxAnswer bounds the answer of a child.
	MaxAnswer = 1 << 20
	// MaxResponse bounds that of an engine.
	MaxResponse = 8 << 20
	// AimMemory is what a child's collector aims at.
	AimMemory = 32 << 20
	// MaxMemory is what the kernel grants a child. That counts all writable memory, touched or not. A Go program with cgo has
	// 100 MiB when it starts.
	MaxMemory = 128 << 20
	// A process may tell the kernel that any part of its memory, even 64 GB, is its command line or its environment
	// (PR_SET_MM_MAP in prctl(2)). execve(2) accepts far less: three quarters of 8 MiB for both together. Of a command line enough
	// is read to recognise it: it is kept for every process.
	maxEnviron, maxArgs = 8 << 20, 64 << 10
)

// How many there may be.
const (
	// MaxParts bounds the values of a child's answer: a short text may decode to much memory.
	MaxParts = 32 << 10
	// MaxValues bounds those of a configuration.
	MaxValues = 1 << 20
	// MaxEngines bounds how many engines are asked: records may name any number.
	MaxEngines = 16
	// MaxNamed bounds how much of one kind is named that could not be read, or that another user's pass tells.
	MaxNamed = 20
)
