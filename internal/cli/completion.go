package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/describe"
	"mcp-tether/internal/live"
	"mcp-tether/internal/session"
	"mcp-tether/internal/share"
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
			COMPREPLY=($(compgen -c -f -- "$cur"))
			return
		done
	fi
	while IFS= read -r line; do
		case $line in
		:files) COMPREPLY+=($(compgen -f -- "$cur")) ;;
		:commands) COMPREPLY+=($(compgen -c -- "$cur")) ;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
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
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for bash, zsh or fish", UsageText: "mcp-tether completion bash|zsh|fish",
		HideHelpCommand: true, OnUsageError: badUsage,
		Action: func(c *cli.Context) error {
			switch c.Args().First() {
			case "bash":
				fmt.Fprint(c.App.Writer, bashCompletion)
			case "zsh":
				fmt.Fprint(c.App.Writer, zshCompletion)
			case "fish":
				fmt.Fprint(c.App.Writer, fishCompletion)
			default:
				return usageError("completion needs one of bash, zsh, fish")
			}
			return nil
		},
	}
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
	command := a.Command(words[0])
	if command == nil {
		return nil
	}
	for _, f := range command.Flags {
		long := "--" + f.Names()[0]
		doc, _ := f.(cli.DocGenerationFlag)
		if long == words[len(words)-2] && doc.TakesValue() {
			return valuesOf(command.Name, f.Names()[0])
		}
		all = append(all, long+"\t"+strings.ReplaceAll(doc.GetUsage(), "`", ""))
	}
	if strings.HasPrefix(words[len(words)-1], "-") {
		return append(all, "--help\tshow help")
	}
	switch command.Name {
	case "run":
		return []string{":commands"}
	case "wrap", "unwrap":
		return append(clients.Names(), ":files")
	case "stop":
		return ofSessions(func(l live.Session) string { return l.ID + "\t" + l.Name })
	case "history":
		past, _, _ := pastSessions()
		for i := range past {
			all = append(all, past[i].ID+"\t"+describe.Command(past[i].Args))
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
func valuesOf(command, flag string) []string {
	switch flag {
	case "cgroup":
		return []string{"auto", "off", "require"}
	case "containers":
		if command == "reap" {
			return []string{"auto", "off"}
		}
		return []string{"auto", "all", "off"}
	case "limits":
		return []string{"try", "require"}
	case "scope":
		return []string{"auto", "off"}
	case "on-crash":
		return []string{"end", "restart"}
	case "log-level":
		return []string{"trace", "debug", "info", "warn", "error"}
	case "log-format":
		return []string{"text", "json"}
	case "share-scope":
		return []string{"gateway", "user"}
	case "share-asks":
		return []string{share.AsksCertain, share.AsksInCall}
	case "format":
		return []string{"json", "toml"}
	case "log-file", "config", "home", "metrics-file":
		return []string{":files"}
	case "server":
		return ofConfigurations()
	case "gateway":
		return ofSessions(func(l live.Session) string { return fmt.Sprint(l.Gateway.PID, "\t", l.GatewayCommand) })
	case "name":
		if command == "stop" {
			return ofSessions(func(l live.Session) string { return l.Name })
		}
	}
	return nil
}

// ofConfigurations are the servers of the known clients.
func ofConfigurations() (all []string) {
	places, _ := placesOf(nil)
	for _, p := range places {
		r := rewriting{place: p}
		r.doc, r.err = clients.OpenDocument(p.Path, p.Format)
		r.apply(clients.Wrapping{}, nil, false)
		for _, c := range r.rewritten.Changes {
			all = append(all, describe.Text(c.Name)+"\t"+p.Client.Title)
		}
	}
	return all
}

// ofSessions says something of each living session of the user, once.
func ofSessions(say func(live.Session) string) (all []string) {
	dirs, left := session.OpenAllBut(os.Getuid(), runtimeDir())
	defer session.CloseAll(dirs)
	living, _, _ := livingSessions(dirs, left, func([]live.Session) {}, false)
	for _, l := range living {
		word, about, _ := strings.Cut(say(l), "\t")
		if one := describe.Text(word) + "\t" + describe.Text(about); word != "" && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
