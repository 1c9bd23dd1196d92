package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/clients"
	"mcp-tether/internal/display"
)

const wrapHelp = `Puts "mcp-tether run --name NAME --" in front of the commands of stdio
servers in the configuration of MCP clients; NAME is the server's there.
Shows what would change and asks, once a file. Nothing else in a file
changes by a byte, and "mcp-tether unwrap" gives the text back.

CLIENT is codex, claude, claude-desktop, openclaw, gemini, cursor,
vscode, zed, windsurf, cline, roo, lm-studio, kiro, copilot, junie, qwen,
amp, opencode, vibe or jetbrains. Without CLIENT or FILE, every client is
looked for. Files of a project (.mcp.json) are changed only by name.

Behind -- are flags of run; servers that are wrapped already get these
instead of theirs. Where mcp-tether is not in PATH, its path is written.

What an organisation's list denies, or would not allow any more, is left
alone (Claude Code's managed settings, Codex' requirements.toml).

End the client first, and start it again afterwards: some write their
configuration while they run.

Exit code: 0 done, or nothing to do; 1 --check found a server that is not
wrapped, or the answer was no; 2 something could not be read or changed.

Examples:
   mcp-tether wrap                 # all clients, a question a file
   mcp-tether wrap --dry-run codex # only show what
   mcp-tether wrap codex -- --lazy --hibernate 10m
   mcp-tether wrap --server files codex -- --share
   mcp-tether wrap --check .mcp.json # in CI`

const unwrapHelp = `Takes "mcp-tether run" away again from the servers in the configuration
of MCP clients. Shows what would change and asks. See mcp-tether help
wrap.

Examples:
   mcp-tether unwrap
   mcp-tether unwrap --yes --server files codex .mcp.json`

// wrapFlags are the flags of wrap; the first ones are also those of unwrap.
var wrapFlags = [...]argv.Flag{
	{Name: "yes", Short: "y", Usage: "do not ask"},
	{Name: "dry-run", Usage: "only show what would change"},
	{Name: "server", Kind: argv.List, Usage: "only the server `NAME` (repeatable)"},
	{Name: "check", Usage: "change nothing, and fail if a server is not wrapped"},
}

// alsoUnwrap is how many of them there are.
const alsoUnwrap = 3

// wrap puts mcp-tether in front. behind are the words after "--"; nil if there is none.
func wrap(c *cli.Context, behind []string) error {
	flags, err := flagsOfRun(behind)
	if err != nil {
		return err
	}
	return rewrite(c, clients.Options{Flags: flags})
}

func unwrap(c *cli.Context) error { return rewrite(c, clients.Options{Unwrap: true}) }

// flagsOfRun judges flags as run would where the environment says nothing. None are nil, as they were.
func flagsOfRun(words []string) ([]string, error) {
	if words == nil {
		return nil, nil
	}
	if slices.Contains(words, "--help") || slices.Contains(words, "-h") {
		return nil, usageError("behind --: with these, run starts no server")
	}
	s := settings{flagsOnly: true}
	// With the first "--" for its value, the last flag would name a file or a label so.
	s, ok, err := s.parse(append(append([]string{"mcp-tether", "run"}, words...), "--", "--", "true"), io.Discard)
	switch command := s.session.Command; {
	case err != nil || !ok:
		return nil, usageError(fmt.Sprint("behind --: ", err))
	case len(command) == 1:
		return nil, usageError("behind --: " + words[len(words)-1] + " has no value")
	case len(command) > 2:
		return nil, usageError("behind --: " + command[0] + " is no flag of run")
	}
	return words, nil
}

// job is one configuration file while it is being changed.
type job struct {
	clients.Document
	plan clients.Plan
	err  error
}

// serverFilter holds the servers that the user named, and whether each was found. If it is empty, all servers are meant.
type serverFilter map[string]bool

func (f serverFilter) want(name string) bool {
	if _, named := f[name]; named {
		f[name] = true
		return true
	}
	return len(f) == 0
}

func rewrite(c *cli.Context, o clients.Options) error {
	for _, a := range c.Args().Slice() {
		if strings.HasPrefix(a, "-") {
			return usageError(a + ": flags of " + c.Command.Name + " come before CLIENT and FILE")
		}
	}
	places, missing := placesOf(c.Args().Slice())
	if missing != nil && !errors.Is(missing, clients.ErrNoConfiguration) {
		return missing
	}
	if !o.Unwrap {
		var err error
		if o.Absolute, err = ownPath(); err != nil {
			return err
		}
		if _, err := exec.LookPath(clients.Program); err != nil {
			o.Path = o.Absolute
		}
	}
	all, unknown := jobsOf(places, c, o)
	dry := c.Bool("dry-run") || unknown != nil
	missing = errors.Join(missing, unknown)
	if c.Bool("check") {
		missing = errors.Join(missing, unread(all, c.Args().Present()))
	}
	answer := conclude(c, all, o.Unwrap, dry)
	if len(all) == 0 && missing == nil {
		fmt.Fprintln(os.Stderr, "no configuration of a known client is here; name a FILE")
	}
	for _, j := range all {
		if j.err != nil {
			missing = errors.Join(missing, fmt.Errorf("%s: %s", display.Text(j.Path), display.Error(j.err)))
		}
	}
	if missing != nil {
		return status{exitUnread, missing}
	}
	return answer
}

// jobsOf plans what is to become of the files. The error says which servers no file has.
func jobsOf(places []clients.Place, c *cli.Context, o clients.Options) (all []*job, unknown error) {
	filter := serverFilter{}
	for _, name := range c.StringSlice("server") {
		filter[name] = false
	}
	for _, p := range places {
		if p.Bundled && !slices.Contains(c.Args().Slice(), p.Path) {
			continue
		}
		j := &job{}
		if j.Document, j.err = clients.OpenDocument(p); j.err == nil {
			j.plan, j.err = j.Plan(o, filter.want)
			j.plan.Unread = slices.DeleteFunc(j.plan.Unread, func(name string) bool { return !filter.want(name) })
		}
		all = append(all, j)
	}
	for _, name := range c.StringSlice("server") {
		if !filter[name] {
			unknown = errors.Join(unknown, fmt.Errorf("no file has a server %q that is started as a process: nothing was changed (mcp-tether wrap --dry-run shows them)", name))
		}
	}
	return all, unknown
}

// errNoServers says that a file tells nothing of servers, or does so in a way that is not known.
var errNoServers = errors.New("no servers found in a known form")

const notSaid = "it does not say how it is started"

// unread says which files could not be judged. named says that the user named them.
func unread(all []*job, named bool) error {
	none := !named
	for _, j := range all {
		switch {
		case j.err != nil:
		case len(j.plan.Unread) > 0:
			j.err = errors.New(strings.Join(j.plan.Unread, ", ") + ": " + notSaid)
		case len(j.plan.Changes)+len(j.plan.Remote) > 0:
		case named:
			j.err = errNoServers
		default:
			continue
		}
		none = false
	}
	if none {
		return errNoServers
	}
	return nil
}

// conclude shows what is to change, and unless the run is dry, asks and changes it.
func conclude(c *cli.Context, all []*job, unwrap, dry bool) error {
	check, yes := c.Bool("check"), c.Bool("yes")
	asks := !yes && askable()
	var restart []string
	edits, bare, done := 0, 0, 0
	for _, j := range all {
		edited := 0
		for i := range j.plan.Changes {
			if j.plan.Changes[i].Edited {
				edited++
			}
			if j.plan.Changes[i].Bare() {
				bare++
			}
		}
		edits += edited
		j.show(os.Stdout, unwrap, check)
		if check || dry || edited == 0 || !yes && !(asks && confirm(j.question(edited, unwrap))) {
			continue
		}
		done += edited
		if j.err = j.Replace(j.plan.Text); j.err != nil {
			continue
		}
		fmt.Fprintln(os.Stdout, "changed", display.Text(j.Path))
		if title := j.Client.Title; title != "" && !slices.Contains(restart, title) {
			restart = append(restart, title)
		}
	}
	if len(restart) > 0 {
		fmt.Fprintln(os.Stdout, "start again:", strings.Join(restart, ", "))
	}
	if !unwrap && !c.Args().Present() {
		nameProject()
	}
	switch {
	case check && bare > 0:
		return status{code: exitFindings}
	case check || dry || edits == 0 || done > 0:
		return nil
	case asks:
		return status{exitFindings, errors.New("nothing was changed")}
	}
	return status{exitFindings, errors.New("nothing was changed: say --yes to change it, or --dry-run to see what")}
}

func (j *job) question(n int, unwrap bool) string {
	verb, of := "Wrap", display.Text(j.Path)
	if unwrap {
		verb = "Unwrap"
	}
	if j.Client.Title != "" {
		of = j.Client.Title
	}
	return fmt.Sprintf("%s %s of %s?", verb, counted(n, "server"), of)
}

// ownPath is the path of this program under the name by which a wrapped entry is known.
func ownPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	if link, err := exec.LookPath(clients.Program); err == nil {
		a, errA := os.Stat(link)
		b, errB := os.Stat(exe)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return filepath.Abs(link) // An upgrade may take away what it leads to.
		}
	}
	if filepath.Base(exe) == clients.Program {
		return exe, nil
	}
	return "", fmt.Errorf("to write the path of this program, %s: its file must be named %s, or linked by that name in a directory of PATH", exe, clients.Program)
}

// placesOf are the files that the arguments name, or those of all known clients. Beside ErrNoConfiguration there may be
// files of other clients.
func placesOf(args []string) ([]clients.Place, error) {
	var names []string
	var places []clients.Place
	home, err := os.UserHomeDir()
	for _, a := range args {
		_, err := os.Lstat(a)
		if strings.ContainsRune(a, '/') || err == nil && !clients.IsName(a) {
			places = append(places, clients.PlaceOf(home, a))
		} else {
			names = append(names, a)
		}
	}
	if len(names) == 0 && len(places) > 0 {
		return eachOnce(places), nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the configurations: %w; name the files", err)
	}
	found, err := clients.PlacesOf(home, names)
	return eachOnce(append(found, places...)), err
}

// eachOnce leaves out files that were named before, maybe by way of another directory, of which the second change would fail.
func eachOnce(places []clients.Place) []clients.Place {
	var seen []fs.FileInfo
	return slices.DeleteFunc(places, func(p clients.Place) bool {
		st, err := os.Lstat(p.Path)
		if err != nil {
			return false
		}
		before := slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(st, other) })
		seen = append(seen, st)
		return before
	})
}

// nameProject names the files of the project in the current directory.
func nameProject() {
	home, _ := os.UserHomeDir()
	for _, file := range clients.InProject(home) {
		fmt.Fprintf(os.Stderr, "%s belongs to this project, and is changed only by name: mcp-tether wrap %[1]s\n", file)
	}
}
