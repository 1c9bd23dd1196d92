package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
	"mcp-tether/internal/live"
	"mcp-tether/internal/session"
)

// The shells ask the program itself for the words that may come next. Their scripts are installed by packages, and printed by
// "mcp-tether completion SHELL".
const (
	bashCompletion = `# bash completion for mcp-tether

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
`
	zshCompletion = `#compdef mcp-tether

_mcp_tether() {
	local -a found
	local line
	integer dashes=${words[(i)--]}
	if [[ $words[2] == run ]] && ((dashes < CURRENT)); then
		shift $dashes words
		((CURRENT -= dashes))
		_normal
		return
	fi
	for line in ${(f)"$($words[1] __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
		case $line in
		:files) _files ;;
		:commands) _command_names -e ;;
		*) found+=("${${line//:/\\:}/$'\t'/:}") ;;
		esac
	done
	_describe mcp-tether found
}

if [[ $funcstack[1] == _mcp_tether ]]; then
	_mcp_tether "$@"
else
	compdef _mcp_tether mcp-tether
fi
`
	fishCompletion = `# fish completion for mcp-tether

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
`
)

func completionCommand() *cli.Command {
	return describeCommand("completion", "print a completion script for bash, zsh or fish", "bash|zsh|fish", "", nil, func(c *cli.Context) error {
		script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Args().First()]
		if script == "" {
			return usageError("completion needs one of bash, zsh, fish")
		}
		fmt.Fprint(c.App.Writer, script)
		return nil
	})
}

func completeCommand() *cli.Command {
	return &cli.Command{Name: "__complete", Hidden: true, HideHelpCommand: true, SkipFlagParsing: true, Action: complete}
}

// complete prints the words that may stand in the place of the last one, each with what it means after a tab. ":files" and
// ":commands" ask the shell for those.
func complete(c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return errors.New("no words")
	}
	last := words[len(words)-1]
	for _, candidate := range candidates(c.App, words) {
		if strings.HasPrefix(candidate, last) || candidate[0] == ':' {
			fmt.Fprintln(c.App.Writer, candidate)
		}
	}
	return nil
}

func candidates(a *cli.App, words []string) (all []string) {
	if len(words) == 1 {
		for _, c := range a.VisibleCommands() {
			all = append(all, c.Name+"\t"+c.Usage)
		}
		return append(all, "--help", "--version")
	}
	command, behind := words[0], slices.Index(words, "--")
	if a.Command(command) == nil {
		return nil
	}
	if command == "wrap" && behind > 0 && behind < len(words)-1 {
		command = "run" // whose flags these are
	}
	for _, f := range visible(tableOf(command)) {
		if "--"+f.Name == words[len(words)-2] && f.Kind != argv.Switch {
			return valuesOf(command, &f)
		}
		_, text := placeholder(&f)
		all = append(all, "--"+f.Name+"\t"+text)
	}
	if strings.HasPrefix(words[len(words)-1], "-") {
		return append(all, "--help\tshow help")
	}
	switch words[0] {
	case "run":
		return []string{":commands"}
	case "wrap", "unwrap":
		return append(clients.Names(), ":files")
	case "stop", "restart", "ps":
		return ofSessions(func(l live.Session) string { return l.ID + "\t" + l.Name })
	case "history":
		past, _, _ := pastSessions()
		for i := range past {
			all = append(all, past[i].ID+"\t"+display.Command(past[i].Args))
		}
		return all
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "help":
		return candidates(a, []string{""})
	}
	return nil
}

// valuesOf are the values of a flag.
func valuesOf(command string, f *argv.Flag) []string {
	switch word, _ := placeholder(f); {
	case f.Values != nil:
		return f.Values
	case word == "FILE":
		return []string{":files"}
	case f.Name == "server":
		return ofConfigurations()
	case f.Name == "gateway":
		return ofSessions(func(l live.Session) string { return fmt.Sprint(l.Gateway.PID, "\t", l.GatewayCommand) })
	case f.Name == "name" && (command == "stop" || command == "restart"):
		return ofSessions(func(l live.Session) string { return l.Name })
	}
	return nil
}

// ofConfigurations are the servers of the known clients.
func ofConfigurations() (all []string) {
	places, _ := placesOf(nil)
	for _, p := range places {
		if d, err := clients.OpenDocument(p); err == nil {
			plan, _ := d.Plan(clients.Options{Unwrap: true}, func(string) bool { return true })
			for _, c := range plan.Changes {
				all = append(all, display.Text(c.Name)+"\t"+p.Client.Title)
			}
		}
	}
	return all
}

// ofSessions says something of each living session of the user, once.
func ofSessions(say func(live.Session) string) (all []string) {
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	defer session.CloseAll(dirs)
	living, _, _ := livingSessions(dirs, left, func([]live.Session) {})
	for _, l := range living {
		word, about, _ := strings.Cut(say(l), "\t")
		if one := display.Text(word) + "\t" + display.Text(about); word != "" && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
