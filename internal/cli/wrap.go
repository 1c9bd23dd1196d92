package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/describe"
)

const wrapHelp = `Puts "mcp-tether run --name NAME --" in front of the commands of stdio
servers in the configuration of MCP clients; NAME is the server's there.
Shows what would change and asks. Nothing else in a file changes by a
byte. The text before the first wrap is kept beside the file, but not in
a git work tree, and "mcp-tether unwrap" gives it back.

CLIENT is codex, claude, claude-desktop, openclaw, gemini, cursor,
vscode, zed, windsurf, cline, roo, lm-studio, kiro, copilot, junie, qwen,
amp, opencode or jetbrains. For jetbrains-ai, goose and continue it says
what to write by hand. Without CLIENT or FILE, every client is looked
for. Files of a project (.mcp.json) are shared with others and so are
changed only when they are named.

End the client first: some write their configuration while they run. It
starts the servers in the new way when it is started again.

Exit code: 0 done, or nothing to do; 1 --check found a server that is not
wrapped, or the answer was no; 2 something could not be read or changed.

Examples:
   mcp-tether wrap                 # all clients, with questions
   mcp-tether wrap --dry-run codex # only show the difference
   mcp-tether wrap --yes --preset codex # start late, sleep when idle
   mcp-tether wrap --server files --flags '--hibernate 1h' codex
   mcp-tether wrap --absolute --yes claude-desktop
   mcp-tether wrap --check .mcp.json # in CI`

const unwrapHelp = `Takes "mcp-tether run" away again from the servers in the configuration
of MCP clients. Shows what would change and asks. See mcp-tether help
wrap.

Examples:
   mcp-tether unwrap
   mcp-tether unwrap --yes --server files codex .mcp.json`

func wrapCommand() *cli.Command {
	c := rewriteCommand("wrap", "start the servers of MCP clients under mcp-tether", wrapHelp)
	c.Flags = append(c.Flags,
		&cli.StringFlag{Name: "flags", Usage: "`FLAGS` of run, in one word; servers that are wrapped already get these instead of theirs"},
		&cli.BoolFlag{Name: "preset", DisableDefaultText: true, Usage: "give servers without flags those that fit their client: --lazy --hibernate 30m where it keeps the servers of closed threads"},
		&cli.BoolFlag{Name: "absolute", DisableDefaultText: true, Usage: "write the path of this program, for clients that search few directories"},
		&cli.BoolFlag{Name: "check", DisableDefaultText: true, Usage: "change nothing, and fail if a server is not wrapped"},
	)
	return c
}

func unwrapCommand() *cli.Command {
	return rewriteCommand("unwrap", "undo wrap", unwrapHelp)
}

func rewriteCommand(name, usage, help string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Description: help,
		UsageText:       "mcp-tether " + name + " [flags] [CLIENT|FILE...]",
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", DisableDefaultText: true, Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "only show the difference"},
			&cli.StringSliceFlag{Name: "server", Usage: "only the server `NAME` (repeatable)"},
			&cli.StringFlag{Name: "format", Usage: "read a FILE as `FORMAT` json or toml, whatever its name"},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON object instead of the difference"},
		},
		Action: rewrite,
	}
}

// rewriting is one configuration file while it is being changed.
type rewriting struct {
	place     clients.Place
	doc       clients.Document
	rewritten clients.Rewritten
	preset    bool // the user wants the client's preset
	unwrap    bool
	declined  map[int]bool // the changes that the user does not want
	changed   bool
	backup    string
	err       error
}

func rewrite(c *cli.Context) error {
	w, err := wrapping(c)
	if err != nil {
		return err
	}
	places, missing := placesOf(c.Args().Slice())
	if missing != nil && !errors.Is(missing, clients.ErrNoConfiguration) {
		return missing
	}
	var all []*rewriting
	for _, p := range places {
		r := &rewriting{place: p}
		format := clients.Format(c.String("format"))
		if format == "" || !slices.Contains(c.Args().Slice(), p.Path) {
			format = p.Format
		}
		if r.doc, r.err = clients.OpenDocument(p.Path, format); errors.Is(r.err, clients.ErrByHand) {
			hint := "; write by hand: " + p.Client.ByHand()
			if w.Unwrap {
				hint = "; take out by hand what starts mcp-tether"
			}
			r.err = fmt.Errorf("%w%s", r.err, hint)
			if !c.Args().Present() && !c.Bool("check") {
				fmt.Fprintf(os.Stderr, "%s (%s): %s\n", describe.Text(p.Path), p.Client.Title, describe.Error(r.err))
				continue
			}
		}
		all = append(all, r)
	}
	only := only(c.StringSlice("server"))
	if w.Flags == nil && !w.Unwrap {
		offer(c, w, only, all)
	}
	for _, r := range all {
		r.apply(w, only, c.Bool("preset") || r.preset)
	}
	dry := c.Bool("dry-run")
	for _, name := range c.StringSlice("server") {
		if !only[name] {
			missing = errors.Join(missing, fmt.Errorf("no file has a server %q that is started as a process: nothing was changed", name))
			dry = true
		}
	}
	again := func(r *rewriting) { r.apply(w, only, c.Bool("preset") || r.preset) }
	return conclude(c, all, again, missing, dry)
}

// errNoServers says that a file tells nothing of servers, or does so in a way that is not known.
var errNoServers = errors.New("no servers found in a known form")

// unread says which files could not be judged. named says that the user named them.
func unread(all []*rewriting, named bool) error {
	none := !named
	for _, r := range all {
		rw := &r.rewritten
		switch {
		case r.err != nil:
		case len(rw.Unread) > 0:
			r.err = errors.New(strings.Join(rw.Unread, ", ") + ": " + notSaid)
		case len(rw.Changes)+len(rw.Remote) > 0:
		case named:
			r.err = errNoServers
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

const notSaid = "it does not say how it is started"

// named holds the servers that the user named, and whether each was found. If it is empty, all servers are meant.
type named map[string]bool

func only(names []string) named {
	n := named{}
	for _, name := range names {
		n[name] = false
	}
	return n
}

func (n named) want(name string) bool {
	if _, found := n[name]; found {
		n[name] = true
		return true
	}
	return len(n) == 0
}

// apply computes what becomes of the file.
func (r *rewriting) apply(w clients.Wrapping, only named, preset bool) {
	if r.err != nil {
		return
	}
	r.unwrap = w.Unwrap
	if preset {
		w.Preset = r.place.Client
	}
	n := -1
	r.rewritten, r.err = clients.Rewrite(r.doc.Text, r.doc.Format, w, func(name string) bool {
		n++
		return only.want(name) && !r.declined[n]
	})
	r.rewritten.Unread = slices.DeleteFunc(r.rewritten.Unread, func(name string) bool { return !only.want(name) })
}

// offer asks, for each client that has a preset, whether its servers are to get it. Where it may not ask, it says on a
// terminal how to get the preset.
func offer(c *cli.Context, w clients.Wrapping, only named, all []*rewriting) {
	if c.Bool("preset") || c.Bool("check") || c.Bool("json") {
		return
	}
	asks := askable() && !c.Bool("yes") && !c.Bool("dry-run")
	for _, r := range all {
		title := r.place.Client.Title
		trial := *r
		trial.apply(w, only, true)
		n := trial.rewritten.Preset()
		switch {
		case n == 0:
		case asks:
			r.preset = confirm(fmt.Sprintf("%s keeps the servers of closed threads. Let %s start when needed and hibernate when idle (--lazy --hibernate 30m)?", title, counted(n, "server")))
		case term.IsTerminal(int(os.Stderr.Fd())):
			fmt.Fprintf(os.Stderr, "%s keeps the servers of closed threads. With --preset they start when needed, and hibernate when idle; see docs/hibernate.md\n", title)
		}
	}
}

// wrapping reads the flags.
func wrapping(c *cli.Context) (clients.Wrapping, error) {
	w := clients.Wrapping{Unwrap: c.Command.Name == "unwrap"}
	switch f := c.String("format"); clients.Format(f) {
	case "", clients.JSON, clients.TOML:
	default:
		return w, usageError("--format " + f + " is none of json, toml")
	}
	if c.IsSet("flags") && c.Bool("preset") {
		return w, usageError("--flags and --preset exclude each other")
	}
	if c.IsSet("flags") {
		words, err := splitWords(c.String("flags"))
		if err != nil {
			return w, usageError("--flags: " + err.Error())
		}
		opts, err := parse(append(append([]string{"mcp-tether", "run"}, words...), "--", "true"), true)
		if err != nil {
			return w, usageError("--flags: " + err.Error())
		}
		switch len(opts.Command) {
		case 0:
			return w, usageError("--flags: with these, run starts no server")
		case 1:
		default:
			return w, usageError("--flags: " + opts.Command[0] + " is no flag of run")
		}
		// With "--" for its value, the last flag would name a file or a label so.
		opts, err = parse(append([]string{"mcp-tether", "run"}, append(words, "true")...), true)
		if err != nil || len(opts.Command) == 0 {
			return w, usageError("--flags: " + words[len(words)-1] + " has no value")
		}
		w.Flags = append([]string{}, words...)
	}
	w.PathIn = pathIn
	if c.Bool("absolute") {
		var err error
		if w.Path, err = ownPath(); err != nil {
			return w, err
		}
	} else if _, err := exec.LookPath(clients.Program); err != nil && !w.Unwrap {
		fmt.Fprintln(os.Stderr, "mcp-tether: warning: mcp-tether is not found by that name; use --absolute, or install it in a directory of PATH")
	}
	return w, nil
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

// pathIn is the command for a server that has these directories as its PATH: "", the name, where it is found in them.
// Clients read a directory that is not absolute in ways of their own.
func pathIn(dirs string) (string, error) {
	for _, dir := range filepath.SplitList(dirs) {
		if _, err := exec.LookPath(filepath.Join(dir, clients.Program)); err == nil && filepath.IsAbs(dir) {
			return "", nil
		}
	}
	return ownPath()
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
	found, err := clients.Here(home, names)
	for _, name := range names {
		if clients.IsName(name) {
			continue
		}
		if hint := didYouMean(name, clients.Names()); hint != "" {
			return nil, usageError("no such client: " + name + ", nor a file of that name" + hint)
		}
		return nil, err
	}
	return eachOnce(append(found, places...)), err
}

// eachOnce leaves out files that were named before, of which the second change would fail.
func eachOnce(places []clients.Place) []clients.Place {
	seen := map[string]bool{}
	return slices.DeleteFunc(places, func(p clients.Place) bool {
		path, err := filepath.Abs(p.Path)
		if err != nil {
			return false
		}
		before := seen[path]
		seen[path] = true
		return before
	})
}

// conclude shows what is to change, and unless the run is dry, asks and changes it. again computes once more what becomes
// of a file. missing says which clients have no configuration, and which servers are nowhere.
func conclude(c *cli.Context, all []*rewriting, again func(*rewriting), missing error, dry bool) error {
	asJSON, check := c.Bool("json"), c.Bool("check")
	var a *asker
	if !asJSON && !check && !dry && !c.Bool("yes") && askable() {
		a = &asker{}
	}
	edited, bare := count(all)
	if !asJSON {
		for _, r := range all {
			r.show(os.Stdout, check, a)
			if len(r.declined) > 0 {
				again(r)
			}
		}
		if len(all) == 0 && missing == nil {
			fmt.Fprintln(os.Stderr, "no configuration of a known client is here; name a FILE")
		}
		if !c.Args().Present() && c.Command.Name == "wrap" {
			nameProject()
		}
	}
	answer := error(nil)
	switch {
	case check:
		missing = errors.Join(missing, unread(all, c.Args().Present()))
		if bare > 0 {
			answer = status{code: exitFindings}
		}
	case edited == 0 || dry:
	case a == nil && !c.Bool("yes"):
		answer = status{exitFindings, errors.New("nothing was changed: say --yes to change it, or --dry-run to see the difference")}
	default:
		if edited, _ = count(all); edited == 0 {
			answer = status{exitFindings, errors.New("nothing was changed")}
		}
		change(all, asJSON)
	}
	if asJSON {
		if err := describe.JSON(os.Stdout, report(all)); err != nil {
			return err
		}
	}
	if failed := failures(all, missing); failed != nil {
		return status{exitUnread, failed}
	}
	return answer
}

// nameProject names the files of the project in the current directory.
func nameProject() {
	home, _ := os.UserHomeDir()
	for _, file := range clients.InProject(home) {
		fmt.Fprintf(os.Stderr, "%s belongs to this project, and is changed only by name: mcp-tether wrap %[1]s\n", file)
	}
}

// failures says which files are not there, cannot be read, or were not changed.
func failures(all []*rewriting, missing error) error {
	failed := missing
	for _, r := range all {
		if r.err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", describe.Text(r.place.Path), describe.Error(r.err)))
		}
	}
	return failed
}

// count gives how many servers would change, and how many of those that are wanted are not wrapped.
func count(all []*rewriting) (edited, bare int) {
	for _, r := range all {
		for _, ch := range r.rewritten.Changes {
			if ch.Edited {
				edited++
			}
			if ch.Wanted && !ch.Wrapped && !errors.Is(ch.Err, clients.ErrIndirect) {
				bare++
			}
		}
	}
	return edited, bare
}

// asker asks for each server whether to change it.
type asker struct {
	all  string // the client or file whose other servers are changed without a question
	quit bool   // no other server is changed
}

// asks asks about one server of a client or file.
func (a *asker) asks(verb, server, of string) bool {
	switch {
	case a.quit:
		return false
	case a.all == of:
		return true
	}
	fmt.Fprintf(os.Stdout, "%s %s? [y]es, [n]o, [a]ll of %s, [q]uit: ", verb, describe.Text(server), describe.Text(of))
	line := readLine(os.Stdin)
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	case "a", "all":
		a.all = of
		return true
	}
	a.quit = line == "" || strings.HasPrefix(strings.ToLower(line), "q")
	return false
}

// askable reports whether a user sees questions and can answer them.
func askable() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// confirm asks one question. Any answer but yes is a no.
func confirm(question string) bool {
	fmt.Fprint(os.Stdout, fold(question+" [y/N]")+" ")
	switch strings.ToLower(strings.TrimSpace(readLine(os.Stdin))) {
	case "y", "yes":
		return true
	}
	return false
}

// readLine reads no more than a line: what follows is the answer to the next question.
func readLine(r io.Reader) string {
	var line []byte
	b := make([]byte, 1)
	for {
		n, err := r.Read(b)
		if n > 0 {
			line = append(line, b[0])
		}
		if err != nil || n > 0 && b[0] == '\n' {
			return string(line)
		}
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprint(n, " ", what, "s")
}

// change writes the files. If one cannot be written, the others still are.
func change(all []*rewriting, quiet bool) {
	var restart []string
	for _, r := range all {
		edited, _ := count([]*rewriting{r})
		if r.err != nil || edited == 0 {
			continue
		}
		wrapped := slices.ContainsFunc(r.rewritten.Changes, func(ch clients.Change) bool { return ch.Wrapped })
		r.backup, r.err = r.doc.Replace(r.rewritten.Text, !r.unwrap && !(wrapped && r.doc.HasBackup()))
		if r.changed = r.err == nil; !r.changed || quiet {
			continue
		}
		fmt.Fprint(os.Stdout, "changed ", describe.Text(r.place.Path))
		if r.backup != "" {
			fmt.Fprint(os.Stdout, "; the text before the first wrap is in ", describe.Text(r.backup))
		}
		fmt.Fprintln(os.Stdout)
		if client := clientNow(r.place.Client); client != "" && !slices.Contains(restart, client) {
			restart = append(restart, client)
		}
	}
	if len(restart) > 0 {
		fmt.Fprintln(os.Stdout, "start again:", strings.Join(restart, ", "))
	}
}

// clientNow names a client, and its process if it runs now.
func clientNow(c clients.Client) string {
	if c.Name == "" {
		return ""
	}
	if pid := c.Running(); pid > 0 {
		return fmt.Sprintf("%s (runs now, process %d)", c.Title, pid)
	}
	return c.Title
}

// maxShown is how many bytes of a changed line are shown. Some clients write the whole file as one line.
const maxShown = 160

// show prints what would change in a file, and what is left alone. With a, it asks about each change.
func (r *rewriting) show(w io.Writer, check bool, a *asker) {
	named := slices.ContainsFunc(r.rewritten.Changes, func(ch clients.Change) bool { return ch.Wrapped || ch.Err != nil })
	if r.err != nil || r.unwrap && !named {
		return
	}
	title, verb := r.place.Path, "Wrap"
	if fmt.Fprint(w, describe.Text(title)); r.place.Client.Title != "" {
		title = r.place.Client.Title
		fmt.Fprintf(w, " (%s)", title)
	}
	fmt.Fprintln(w)
	if r.unwrap {
		verb = "Unwrap"
	}
	for _, name := range r.rewritten.Remote {
		if r.unwrap {
			break
		}
		fmt.Fprintf(w, "  %s: reached by network, nothing to wrap\n", describe.Text(name))
	}
	for _, name := range r.rewritten.Unread {
		fmt.Fprintf(w, "  %s: left alone: %s\n", describe.Text(name), notSaid)
	}
	if len(r.rewritten.Changes)+len(r.rewritten.Remote)+len(r.rewritten.Unread) == 0 && !check {
		fmt.Fprintln(w, "  "+errNoServers.Error())
	}
	r.declined = map[int]bool{}
	for i, ch := range r.rewritten.Changes {
		fmt.Fprintf(w, "  %s: %s\n", describe.Text(ch.Name), r.state(ch, check))
		if check {
			continue
		}
		for _, h := range ch.Hunks {
			fmt.Fprintf(w, "@@ line %d\n", h.Line)
			for i := range h.Old {
				fmt.Fprintf(w, "-%s\n", excerpt(h.Old[i], h.New))
			}
			for i := range h.New {
				fmt.Fprintf(w, "+%s\n", excerpt(h.New[i], h.Old))
			}
		}
		if a != nil && ch.Edited && !a.asks(verb, ch.Name, title) {
			r.declined[i] = true
		}
	}
}

// state says what becomes of a server, or with check, what it is.
func (r *rewriting) state(ch clients.Change, check bool) string {
	switch {
	case ch.Err != nil:
		return "left alone: " + describe.Error(ch.Err)
	case ch.Lost != "" && !check:
		return "stays awake while idle: it would lose " + ch.Lost
	case ch.Edited && !check && r.unwrap:
		return "to be unwrapped"
	case ch.Edited && !check && ch.Wrapped:
		return "wrapped, to be started otherwise"
	case ch.Edited && !check:
		return "to be wrapped"
	case ch.Wrapped:
		return "wrapped"
	}
	return "not wrapped"
}

// excerpt cuts a long line down to the part where it begins to differ from the lines of the other side.
func excerpt(line string, others []string) string {
	if len(line) <= maxShown {
		return tabbed(line)
	}
	same := 0
	for _, o := range others {
		n := 0
		for n < min(len(o), len(line)) && o[n] == line[n] {
			n++
		}
		same = max(same, n)
	}
	from := max(0, min(same-maxShown/4, len(line)-maxShown))
	return "..." + tabbed(line[from:min(len(line), from+maxShown)]) + "..."
}

// tabbed is describe.Text for lines of files, where tabs indent.
func tabbed(line string) string {
	return describe.Text(strings.ReplaceAll(line, "\t", "    "))
}

// The JSON form.
type wrapReport struct {
	Version int        `json:"version"`
	Files   []wrapFile `json:"files"`
}

type wrapFile struct {
	Path    string       `json:"path"`
	Client  string       `json:"client,omitempty"`
	Changed bool         `json:"changed"`
	Backup  string       `json:"backup,omitempty"`
	Error   string       `json:"error,omitempty"`
	Servers []wrapServer `json:"servers"`
}

type wrapServer struct {
	Name    string `json:"name"`
	Wrapped bool   `json:"wrapped"` // before the change
	Edited  bool   `json:"edited"`
	Lost    string `json:"would_lose,omitempty"` // while asleep, so the preset leaves it awake
	Remote  bool   `json:"remote,omitempty"`
	Error   string `json:"error,omitempty"`
}

func report(all []*rewriting) wrapReport {
	out := wrapReport{Version: describe.SchemaVersion, Files: []wrapFile{}}
	for _, r := range all {
		f := wrapFile{Path: r.place.Path, Client: r.place.Client.Name, Backup: r.backup, Changed: r.changed, Servers: []wrapServer{}}
		if r.err != nil {
			f.Error = r.err.Error()
		}
		for _, ch := range r.rewritten.Changes {
			s := wrapServer{Name: ch.Name, Wrapped: ch.Wrapped, Edited: ch.Edited, Lost: ch.Lost}
			if ch.Err != nil {
				s.Error = ch.Err.Error()
			}
			f.Servers = append(f.Servers, s)
		}
		for _, name := range r.rewritten.Remote {
			f.Servers = append(f.Servers, wrapServer{Name: name, Remote: true})
		}
		for _, name := range r.rewritten.Unread {
			f.Servers = append(f.Servers, wrapServer{Name: name, Error: notSaid})
		}
		out.Files = append(out.Files, f)
	}
	return out
}
