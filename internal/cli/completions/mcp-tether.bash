# bash completion for mcp-tether

_mcp_tether() {
	local cur=${COMP_WORDS[COMP_CWORD]} line i
	COMPREPLY=()
	if [[ ${COMP_WORDS[1]} == run ]]; then
		# What follows the flags is a command line of its own.
		for ((i = 2; i < COMP_CWORD; i++)); do
			[[ ${COMP_WORDS[i]} == -- ]] || continue
			declare -F _command_offset >/dev/null && _command_offset $((i + 1)) && return
			mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
			return
		done
	fi
	while IFS= read -r line; do
		case $line in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
			;;
		:commands) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur") ;;
		*)
			printf -v line %q "${line%%$'\t'*}"
			COMPREPLY+=("$line")
			;;
		esac
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _mcp_tether mcp-tether
