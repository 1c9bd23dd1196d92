# fish completion for mcp-tether

function __mcp_tether
	set -l words (commandline -opc) (commandline -ct)
	if test "$words[2]" = run; and contains -- -- $words[3..-2]
		__fish_complete_subcommand --fcs-skip=2
		return
	end
	for line in ($words[1] __complete $words[2..] 2>/dev/null)
		switch $line
			case :files
				__fish_complete_path (commandline -ct)
			case :commands
				__fish_complete_command
			case '*'
				echo $line
		end
	end
end
complete -c mcp-tether -f -a '(__mcp_tether)'
