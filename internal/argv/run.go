package argv

// Headings of run's flags in help.
const (
	groupEnd     = "How it ends"
	groupLimits  = "Cgroup and limits"
	groupBoxes   = "Containers"
	groupReplace = "Start late, sleep, start again"
	groupShare   = "One server for several sessions"
	groupTell    = "Names, log and output"
)

// Run are the flags of run. It is a plain array, which is there before the program starts.
var Run = [...]Flag{
	{Name: "eof-grace", Env: "MCP_TETHER_EOF_GRACE", Default: "12s", Kind: Duration, Group: groupEnd,
		Usage: "`DURATION` that the server may go on after standard input was closed"},
	{Name: "term-grace", Env: "MCP_TETHER_TERM_GRACE", Default: "10s", Kind: Duration, Group: groupEnd,
		Usage: "`DURATION` from SIGTERM to SIGKILL; 4s unless it is given, when nobody waits any more"},
	{Name: "keep", Env: "MCP_TETHER_KEEP_GLOB", Kind: List, Group: groupEnd,
		Usage: "leave descendants alone whose command matches `GLOB` (repeatable), as with MCP_TETHER_KEEP=1 in their environment"},
	{Name: "keep-nothing", Env: "MCP_TETHER_KEEP_NOTHING", Group: groupEnd,
		Usage: "end everything: also what others use, a browser that was opened for you, and what MCP_TETHER_KEEP=1 or --keep keeps"},
	{Name: "exclusive", Env: "MCP_TETHER_EXCLUSIVE", Kind: Text, Group: groupEnd,
		Usage: "wait until an ending session of the same gateway with this `KEY` is entirely gone"},

	{Name: "cgroup", Env: "MCP_TETHER_CGROUP", Default: "auto", Values: []string{"auto", "off", "require"}, Kind: Text, Group: groupLimits,
		Usage: "use a cgroup v2 leaf: `MODE` auto, off or require"},
	{Name: "memory-max", Env: "MCP_TETHER_MEMORY_MAX", Kind: Text, Group: groupLimits,
		Usage: "end the server when it and all that it started need more memory than `SIZE`, such as 500M, 2G or 10%"},
	{Name: "pids-max", Env: "MCP_TETHER_PIDS_MAX", Kind: Text, Group: groupLimits, Usage: "at most `N` processes and threads"},
	{Name: "cpu-max", Env: "MCP_TETHER_CPU_MAX", Kind: Text, Group: groupLimits,
		Usage: "at most `PERCENT` of one processor, such as 50% or 200%"},
	{Name: "limits", Env: "MCP_TETHER_LIMITS", Default: "try", Values: []string{"try", "require"}, Kind: Text, Group: groupLimits,
		Usage: "where these limits cannot be enforced, `WHAT`: try (start all the same, and say so) or require (refuse)"},

	{Name: "containers", Env: "MCP_TETHER_CONTAINERS", Default: "auto", Values: []string{"auto", "all", "off"}, Kind: Text, Group: groupBoxes,
		Usage: "end containers that the session created: `WHICH` auto (all, where an engine is in sight), all (and a warning where none is) or off"},
	{Name: "engine", Env: "MCP_TETHER_ENGINE", Kind: Text, Group: groupBoxes,
		Usage: "container engine `URL` instead of the one the docker command would use"},

	{Name: "lazy", Env: "MCP_TETHER_LAZY", Front: true, Group: groupReplace,
		Usage: "start the server when it is needed: the handshake and the first lists come from what earlier sessions saw"},
	{Name: "hibernate", Env: "MCP_TETHER_HIBERNATE", Kind: Duration, Front: true, Group: groupReplace,
		Usage: "end the server after `DURATION` without a message or anything pending; the next message starts it again"},
	{Name: "hibernate-anyway", Env: "MCP_TETHER_HIBERNATE_ANYWAY", Group: groupReplace,
		Usage: "end an idle server whatever its processes do, have open or have locked, and with containers that run"},
	{Name: "on-crash", Env: "MCP_TETHER_ON_CRASH", Default: "end", Values: []string{"end", Restart}, Kind: Text, Front: true, Group: groupReplace,
		Usage: "when the server ends by itself, `WHAT`: end (the session), or restart (the server, with the next message)"},
	{Name: "restart-on", Env: "MCP_TETHER_RESTART_ON", Kind: List, Front: true, Group: groupReplace,
		Usage: "start the server again when the file or directory `PATH` changes (repeatable)"},

	{Name: "share", Env: envShare, Share: true, Group: groupShare,
		Usage: "share one server with the other sessions that have the same command, directory and environment"},
	{Name: "share-scope", Env: EnvScope, Default: ScopeGateway, Values: []string{ScopeGateway, ScopeUser}, Kind: Text, Share: true, Group: groupShare,
		Usage: "share among the sessions of one gateway or of all gateways of the user: `SCOPE` gateway or user"},
	{Name: "share-linger", Env: "MCP_TETHER_SHARE_LINGER", Default: "10m", Kind: Duration, Share: true, Group: groupShare,
		Usage: "`DURATION` that a shared server lives on after its last session has left"},
	{Name: "share-ignore-env", Env: EnvIgnored, Kind: List, Share: true, Group: groupShare,
		Usage: "share also where the variable `NAME` differs (repeatable); the server has that of its first session"},

	{Name: nameFlag, Env: EnvName, Kind: Text, Group: groupTell, Usage: "`LABEL` for logs and ps"},
	{Name: "log-level", Env: "MCP_TETHER_LOG_LEVEL", Default: "warn", Values: []string{"trace", "debug", "info", "warn", "error"}, Kind: Text, Group: groupTell,
		Usage: "`LEVEL` trace, debug, info, warn or error"},
	{Name: "log-format", Env: "MCP_TETHER_LOG_FORMAT", Default: "text", Values: []string{"text", "json"}, Kind: Text, Group: groupTell,
		Usage: "`FORMAT` text or json"},
	{Name: "log-file", Env: "MCP_TETHER_LOG_FILE", Kind: Text, Group: groupTell, Usage: "append the log to `FILE` instead of standard error"},
	{Name: "stdout-guard", Env: "MCP_TETHER_STDOUT_GUARD", Front: true, Group: groupTell,
		Usage: "lines on the server's standard output that are no messages go to standard error; on with --lazy, --hibernate, --on-crash=restart, --restart-on and --share"},
	{Name: "keep-stderr", Env: "MCP_TETHER_KEEP_STDERR", Front: true, Group: groupTell,
		Usage: "errors for lost calls quote the last line that the server wrote to standard error; history has the last 20; on where --stdout-guard is"},
	{Name: "no-history", Env: "MCP_TETHER_NO_HISTORY", Group: groupTell, Usage: "leave the session out of what mcp-tether history shows"},
}

// nameFlag gives a session its name, and EnvName is its variable.
const (
	nameFlag = "name"
	EnvName  = "MCP_TETHER_NAME"
)
