# bash completion for mcp-tether

_mcp_tether() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags= files= values= i
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W 'run reap ps stop wrap unwrap doctor --help --version' -- "$cur"))
		return
	fi
	case $command in
	run)
		flags='--name --eof-grace --term-grace --kill-timeout --keep --cgroup --containers --engine --container-grace --hibernate --hibernate-anyway --wake-timeout --max-message --on-crash --log-level --log-format --log-file --exclusive --share --share-scope --share-linger --share-max --no-anchor --help'
		files='--log-file'
		values='--name --eof-grace --term-grace --kill-timeout --keep --cgroup --containers --engine --container-grace --hibernate --wake-timeout --max-message --on-crash --log-level --log-format --log-file --exclusive --share-scope --share-linger --share-max'
		;;
	reap)
		flags='--kill --unwrapped --json --quiet --match --config --home --session --forget --engine --no-containers --min-age --surplus --dwell --term-grace --kill-timeout --timeout --metrics-file --help'
		files='--config --home --metrics-file'
		values='--match --config --home --session --forget --engine --min-age --surplus --dwell --term-grace --kill-timeout --timeout --metrics-file'
		;;
	ps)
		flags='--tree --json --watch --interval --help'
		files=''
		values='--interval'
		;;
	stop)
		flags='--name --gateway --all --json --timeout --help'
		files=''
		values='--name --gateway --timeout'
		;;
	wrap)
		flags='--yes --dry-run --server --format --json --flags --preset --absolute --check --help'
		files=''
		values='--server --format --flags'
		;;
	unwrap)
		flags='--yes --dry-run --server --format --json --help'
		files=''
		values='--server --format'
		;;
	doctor)
		flags='--json --help'
		files=''
		values=''
		;;
	*) return ;;
	esac
	if [[ " $files " == *" $prev "* ]]; then
		COMPREPLY=($(compgen -f -- "$cur"))
		return
	fi
	[[ " $values " == *" $prev "* ]] && return
	if [[ $command == run ]]; then
		# What follows the flags is a command line of its own.
		for ((i = 2; i < COMP_CWORD; i++)); do
			[[ ${COMP_WORDS[i]} == -- ]] || continue
			declare -F _command_offset >/dev/null && _command_offset $((i + 1)) && return
			COMPREPLY=($(compgen -c -f -- "$cur"))
			return
		done
	fi
	case $command:$cur in
	*:-*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
	run:*) COMPREPLY=($(compgen -c -- "$cur")) ;;
	wrap:* | unwrap:*) COMPREPLY=($(compgen -W 'codex claude claude-desktop openclaw gemini cursor vscode zed' -- "$cur") $(compgen -f -- "$cur")) ;;
	esac
}
complete -F _mcp_tether mcp-tether
