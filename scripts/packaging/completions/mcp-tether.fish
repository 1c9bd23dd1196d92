# fish completion for mcp-tether

complete -c mcp-tether -f
complete -c mcp-tether -n __fish_use_subcommand -a run -d 'start a server and end all of it with its session'
complete -c mcp-tether -n __fish_use_subcommand -a reap -d 'find and end what outlived its session'
complete -c mcp-tether -n __fish_use_subcommand -a ps -d 'show living sessions'
complete -c mcp-tether -n __fish_use_subcommand -a stop -d 'end living sessions politely'
complete -c mcp-tether -n __fish_use_subcommand -a wrap -d 'start the servers of MCP clients under mcp-tether'
complete -c mcp-tether -n __fish_use_subcommand -a unwrap -d 'undo wrap'
complete -c mcp-tether -n __fish_use_subcommand -a doctor -d 'say what works here, what is not wrapped and what leaks'
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l name -d 'LABEL for logs and ps' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l eof-grace -d 'DURATION that the server may go on after standard input was closed' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l term-grace -d 'DURATION from SIGTERM to SIGKILL' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l kill-timeout -d 'DURATION of repeating SIGKILL before the survivors are named' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l keep -d 'leave descendants alone whose command matches GLOB (repeatable), as with MCP_TETHER_KEEP=1 in their environment' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l cgroup -d 'use a cgroup v2 leaf: MODE auto, off or require' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l containers -d 'end containers that the session created: WHICH auto (all, where an engine is in sight), all, attached or off' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l engine -d 'container engine URL instead of the one the docker command would use' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l container-grace -d 'DURATION from a container'\''s stop signal to its removal' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l hibernate -d 'end the server after DURATION without a message or anything pending; the next message starts it again' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l hibernate-anyway -d 'end an idle server whatever its processes do, have open or have locked, and with containers that run'
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l wake-timeout -d 'DURATION in which a woken server, or one that takes the place of another, must have answered the handshake' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l max-message -d 'longest message with --hibernate, --share or --on-crash=restart, a SIZE such as 64MiB' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l on-crash -d 'when the server ends by itself, WHAT: end (the session), or restart (the server, with the next message)' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l log-level -d 'LEVEL trace, debug, info, warn or error' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l log-format -d 'FORMAT text or json' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l log-file -d 'append the log to FILE instead of standard error' -r -F
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l exclusive -d 'wait until an ending session of the same gateway with this KEY is entirely gone' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l share -d 'share one server with the other sessions that have the same command, directory and environment'
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l share-scope -d 'share among the sessions of one gateway or of all gateways of the user: SCOPE gateway or user' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l share-linger -d 'DURATION that a shared server lives on after its last session has left' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l share-max -d 'at most N sessions for each shared server, then another server is started; 0 for no limit' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -l no-anchor -d 'one process instead of two: smaller, but a SIGKILL of it leaves the tree behind'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l kill -d 'end what is proven'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l unwrapped -d 'with --kill: end the severed and the dropped as well'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l json -d 'print one JSON object'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l quiet -d 'print nothing but errors and survivors'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l match -d 'take command lines that match REGEXP for MCP servers, too' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l config -d 'read MCP servers from FILE (JSON or TOML; repeatable) instead of the known gateways'\'' files' -r -F
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l home -d 'also read the known gateways'\'' files in DIR, for its owner'\''s processes (repeatable)' -r -F
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l session -d 'only the session with this whole ID' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l forget -d 'only remove the record of this dead SESSION, whatever may be left of it' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l engine -d 'ask the container engine at URL instead of the docker command'\''s' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l no-containers -d 'ask no container engine'
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l min-age -d 'spare what is younger than DURATION' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l surplus -d 'report more than N servers of one kind under one gateway' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l dwell -d 'DURATION for which a server must have been dropped by its living gateway before it is ended' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l term-grace -d 'DURATION from SIGTERM to SIGKILL, and from a container'\''s stop signal to its removal' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l kill-timeout -d 'DURATION of repeating SIGKILL before the survivors are named' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l timeout -d 'give up after DURATION, whatever was met' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from reap' -l metrics-file -d 'write Prometheus metrics to FILE' -r -F
complete -c mcp-tether -n '__fish_seen_subcommand_from ps' -l tree -d 'show every process and container'
complete -c mcp-tether -n '__fish_seen_subcommand_from ps' -l json -d 'print one JSON object'
complete -c mcp-tether -n '__fish_seen_subcommand_from ps' -l watch -d 'show again and again'
complete -c mcp-tether -n '__fish_seen_subcommand_from ps' -l interval -d 'with --watch: DURATION from one list to the next' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from stop' -l name -d 'the sessions with this LABEL' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from stop' -l gateway -d 'the sessions of the gateway with this PID' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from stop' -l all -d 'all sessions'
complete -c mcp-tether -n '__fish_seen_subcommand_from stop' -l json -d 'print one JSON object'
complete -c mcp-tether -n '__fish_seen_subcommand_from stop' -l timeout -d 'wait for DURATION at most' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l yes -d 'do not ask'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l dry-run -d 'only show the difference'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l server -d 'only the server NAME (repeatable)' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l format -d 'read a FILE as FORMAT json or toml, whatever its name' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l json -d 'print one JSON object instead of the difference'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l flags -d 'FLAGS of run, in one word; servers that are wrapped already get these instead of theirs' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l preset -d 'give servers without flags those that fit their client: --hibernate 10m where it keeps the servers of closed threads'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l absolute -d 'write the path of this program, for clients that search few directories'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap' -l check -d 'change nothing, and fail if a server is not wrapped'
complete -c mcp-tether -n '__fish_seen_subcommand_from unwrap' -l yes -d 'do not ask'
complete -c mcp-tether -n '__fish_seen_subcommand_from unwrap' -l dry-run -d 'only show the difference'
complete -c mcp-tether -n '__fish_seen_subcommand_from unwrap' -l server -d 'only the server NAME (repeatable)' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from unwrap' -l format -d 'read a FILE as FORMAT json or toml, whatever its name' -x
complete -c mcp-tether -n '__fish_seen_subcommand_from unwrap' -l json -d 'print one JSON object instead of the difference'
complete -c mcp-tether -n '__fish_seen_subcommand_from doctor' -l json -d 'print one JSON object'
complete -c mcp-tether -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c mcp-tether -n '__fish_seen_subcommand_from wrap unwrap' -a 'codex claude claude-desktop openclaw gemini cursor vscode zed' -F
