package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// What packages hold besides the binary, and the page of all commands, are generated from the flags. After a change of
// the flags: make generate.
var update = flag.Bool("update", false, "write scripts/packaging/ and docs/commands.md anew")

// inRoot runs a test in the root of the repository, where the files are that it reads. A change of directory in TestMain
// is none that go test knows of, and so it would take the result of a test for that of other files.
func inRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

// generated are the files that follow from the flags, and what they must hold.
func generated() map[string]string {
	a := app([]string{"mcp-tether"}, io.Discard, nil)
	files := map[string]string{
		"docs/commands.md":                              commandsPage(a),
		"scripts/packaging/man/mcp-tether.1":            mainPage(a),
		"scripts/packaging/completions/mcp-tether.bash": bashCompletion,
		"scripts/packaging/completions/_mcp-tether":     zshCompletion,
		"scripts/packaging/completions/mcp-tether.fish": fishCompletion,
	}
	for _, c := range documented(a) {
		files["scripts/packaging/man/mcp-tether-"+c.Name+".1"] = manPage(a, c)
	}
	return files
}

// documented are the commands that have pages. The others have no flags.
func documented(a *cli.App) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(a.Commands), func(c *cli.Command) bool { return c.Description == "" })
}

func TestGenerated(t *testing.T) {
	inRoot(t)
	files := generated()
	if *update {
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s is not what the flags say (%v): make generate", name, err)
		}
	}
	for _, dir := range []string{"scripts/packaging/man", "scripts/packaging/completions"} {
		there, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range there {
			if files[dir+"/"+f.Name()] == "" {
				t.Errorf("%s/%s belongs to no command", dir, f.Name())
			}
		}
	}
}

// pages are the pages of docs/ about a command and its flags.
var pages = map[string]string{
	"run": "reference.md", "reap": "reap.md", "ps": "ps-stop.md", "stop": "ps-stop.md", "wrap": "wrap.md", "unwrap": "wrap.md", "doctor": "doctor.md", "cache": "lazy.md", "history": "history.md",
}

// Every flag has a word on its command's page. docs/commands.md lists them.
func TestPagesNameFlags(t *testing.T) {
	inRoot(t)
	named := 0
	for _, c := range documented(app([]string{"mcp-tether"}, io.Discard, nil)) {
		name := pages[c.Name]
		b, err := os.ReadFile(filepath.Join("docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flagsOf(c) {
			if named++; !regexp.MustCompile("--" + f.name + "([^a-z-]|$)").Match(b) {
				t.Errorf("%s does not name %s --%s", name, c.Name, f.name)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d flags", named)
	}
}

// Pages name a default behind its flag. namedValue is a number with its unit, or a word in the type of code.
const (
	number     = "[0-9][0-9.]*(?:\\s+(?:ms|s|minutes?|MiB))?"
	namedValue = "(" + number + "|`[^`]+`)"
)

var (
	behindFlag = regexp.MustCompile("`--([a-z-]+)`\\s+\\((?:default\\s+)?" + namedValue)                     // `--flag` (5 s
	ofFlag     = regexp.MustCompile("(" + number + ")\\s+of\\s+`--([a-z-]+)`")                               // 5 s of `--flag`
	setFlag    = regexp.MustCompile("`--([a-z-]+)=([^`]+)`,\\s+the\\s+default")                              // `--flag=word`, the default
	bothFlags  = regexp.MustCompile("`--([a-z-]+)`\\s+and\\s+`--([a-z-]+)`\\s+together\\s+\\(" + namedValue) // `--a` and `--b` together (6 s
)

// Where a page names the default of a flag, it is the flag's.
func TestPagesNameDefaults(t *testing.T) {
	inRoot(t)
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range append(files, "README.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defaults := defaultsFor(filepath.Base(file))
		wrong, n := wrongDefaults(string(b), defaults)
		for _, w := range wrong {
			t.Errorf("%s: %s", file, w)
		}
		named += n
		// With other defaults each of these places is wrong.
		for flag := range defaults {
			defaults[flag] = []string{"another"}
		}
		if wrong, _ := wrongDefaults(string(b), defaults); len(wrong) != n {
			t.Errorf("%s: of %d places only these are compared: %q", file, n, wrong)
		}
	}
	if named < 15 {
		t.Errorf("pages name only %d defaults", named)
	}
}

func TestWrongDefaults(t *testing.T) {
	defaults := map[string][]string{"eof-grace": {"5s"}, "term-grace": {"1.5s"}, "share-linger": {"10m"}, "timeout": {"15s", "1m"}, "surplus": {"8"}, "cgroup": {"auto"}, "keep": {""}, "max-message": {"64MiB"}}
	for text, wrong := range map[string]int{
		"has `--eof-grace` (5 s), then": 0, "has `--eof-grace`\n(5000 ms)": 0, "has `--eof-grace` (4 s": 1, "`--eof-grace` (5": 1, "`--eof-grace` (5 minutes)": 1,
		"`--share-linger` (10 minutes)": 0, "`--share-linger` (10 s)": 1, "`--timeout` (15 s)": 0, "`--timeout` (1 minute)": 0, "`--timeout` (2 minutes)": 1,
		"`--surplus` (8)": 0, "`--surplus` (9)": 1, "`--cgroup` (`auto`)": 0, "`--cgroup` (default `auto`)": 0, "`--cgroup` (`off`)": 1,
		"5 s of `--eof-grace`, then 1.5 s of `--term-grace`": 0, "4 s of `--eof-grace`, then 2 s of `--term-grace`": 2,
		"`--cgroup=auto`, the default": 0, "`--cgroup=off`, the\ndefault": 1,
		"`--eof-grace` and `--term-grace` together (6.5 s by": 0, "`--eof-grace` and `--term-grace` together (6 s by": 1,
		"`--max-message` (64 MiB)": 0, "`--max-message` (64": 1, "the `x` of `--keep`": 0,
		"`--keep` (5 s)": 1, "`--nothing` (5 s)": 1, "`--eof-grace` (at least a second), `--keep` (H)": 0,
	} {
		if got, _ := wrongDefaults(text, defaults); len(got) != wrong {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// defaultsFor are the defaults of all flags that a page may mean: those of the command that the page is about, or else of
// every command that has such a flag.
func defaultsFor(page string) map[string][]string {
	own, all := map[string][]string{}, map[string][]string{}
	for _, c := range documented(app([]string{"mcp-tether"}, io.Discard, nil)) {
		for _, f := range flagsOf(c) {
			all[f.name] = append(all[f.name], f.byDefault)
			if pages[c.Name] == page {
				own[f.name] = append(own[f.name], f.byDefault)
			}
		}
	}
	maps.Copy(all, own)
	return all
}

// wrongDefaults are the places of a text that name another default than those given, and how many places name one.
func wrongDefaults(text string, defaults map[string][]string) (wrong []string, named int) {
	compare := func(place, value string, by ...string) {
		if named++; !slices.Contains(by, plainValue(value)) {
			wrong = append(wrong, fmt.Sprintf("%q; the default is %q", place, by))
		}
	}
	for _, m := range behindFlag.FindAllStringSubmatch(text, -1) {
		compare(m[0], m[2], defaults[m[1]]...)
	}
	for _, m := range ofFlag.FindAllStringSubmatch(text, -1) {
		compare(m[0], m[1], defaults[m[2]]...)
	}
	for _, m := range setFlag.FindAllStringSubmatch(text, -1) {
		compare(m[0], m[2], defaults[m[1]]...)
	}
	for _, m := range bothFlags.FindAllStringSubmatch(text, -1) {
		compare(m[0], m[3], together(defaults[m[1]], defaults[m[2]]))
	}
	return wrong, named
}

// plainValue is a value of a page as flags give their defaults: "1.5 s" is 1.5s, "10 minutes" 10m, and "`auto`" auto.
func plainValue(value string) string {
	value = strings.Trim(value, "`")
	number, unit, ok := strings.Cut(strings.Join(strings.Fields(value), " "), " ")
	if !ok {
		return value
	}
	if unit == "MiB" {
		return number + unit
	}
	d, err := time.ParseDuration(number + strings.TrimSuffix(strings.TrimSuffix(unit, "inutes"), "inute"))
	if err != nil {
		return value
	}
	return durationText(d)
}

// together is the first default of each of two flags together; "" unless both are durations.
func together(a, b []string) string {
	if len(a) == 0 || len(b) == 0 {
		return ""
	}
	x, err := time.ParseDuration(a[0])
	y, yerr := time.ParseDuration(b[0])
	if err != nil || yerr != nil {
		return ""
	}
	return durationText(x + y)
}

// described is a flag as pages and completions describe it.
type described struct {
	name, short, value, usage, variable, byDefault string // short is another name of one letter
	file                                           bool   // the value is a file
}

// flagsOf are the visible flags of a command, in the order of its help.
func flagsOf(c *cli.Command) []described {
	var all []described
	for _, f := range c.VisibleFlags() {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || f.Names()[0] == "help" {
			continue
		}
		d := described{name: f.Names()[0]}
		if len(f.Names()) > 1 {
			d.short = f.Names()[1]
		}
		d.value, d.usage = unquote(doc.GetUsage())
		if doc.TakesValue() && d.value == "" {
			d.value = "VALUE"
		}
		if vars := doc.GetEnvVars(); len(vars) > 0 {
			d.variable = vars[0]
		}
		d.byDefault = defaultOf(f)
		d.file = d.value == "FILE" || d.value == "DIR"
		all = append(all, d)
	}
	return all
}

func defaultOf(f cli.Flag) string {
	switch f := f.(type) {
	case *cli.DurationFlag:
		return durationText(f.Value)
	case *cli.StringFlag:
		return f.Value
	case *cli.IntFlag:
		if f.DefaultText != "" {
			return ""
		}
		return fmt.Sprint(f.Value)
	}
	return ""
}

// durationText is a duration without seconds that are zero.
func durationText(d time.Duration) string {
	s := d.String()
	if before, whole := strings.CutSuffix(s, "m0s"); whole {
		return before + "m"
	}
	return s
}

// unquote takes the placeholder out of a usage text, where it stands in back quotes.
func unquote(usage string) (placeholder, text string) {
	_, rest, ok := strings.Cut(usage, "`")
	if !ok {
		return "", usage
	}
	placeholder, _, _ = strings.Cut(rest, "`")
	return placeholder, strings.ReplaceAll(usage, "`", "")
}

// roff escapes text for troff.
func roff(s string) string {
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\e`), "-", `\-`), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func mainPage(a *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MCP\\-TETHER 1\n.SH NAME\nmcp\\-tether \\- %s\n.SH SYNOPSIS\n", roff(a.Usage))
	b.WriteString(".B mcp\\-tether\n.I COMMAND\n[flags]\n.SH COMMANDS\n")
	for _, c := range documented(a) {
		fmt.Fprintf(&b, ".TP\n.BR mcp\\-tether\\-%s (1)\n%s\n", c.Name, roff(c.Usage))
	}
	b.WriteString(".SH SEE ALSO\n" + seeAlso(a, ""))
	return b.String()
}

func manPage(a *cli.App, c *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MCP\\-TETHER\\-%s 1\n.SH NAME\nmcp\\-tether\\-%s \\- %s\n", strings.ToUpper(c.Name), c.Name, roff(c.Usage))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n.SH DESCRIPTION\n.nf\n%s\n.fi\n.SH OPTIONS\n", roff(c.UsageText), roff(c.Description))
	for _, f := range flagsOf(c) {
		fmt.Fprintf(&b, ".TP\n.B \\-\\-%s", roff(f.name))
		if f.short != "" {
			fmt.Fprintf(&b, ", \\-%s", f.short)
		}
		if f.value != "" {
			fmt.Fprintf(&b, " \\fI%s\\fR", roff(f.value))
		}
		fmt.Fprintf(&b, "\n%s", roff(f.usage))
		if f.byDefault != "" && f.byDefault != "0" {
			fmt.Fprintf(&b, " (default %s)", roff(f.byDefault))
		}
		if f.variable != "" {
			fmt.Fprintf(&b, "\n.br\nEnvironment: %s", f.variable)
		}
		b.WriteString("\n")
	}
	b.WriteString(".SH SEE ALSO\n" + seeAlso(a, c.Name))
	return b.String()
}

// commandsPage lists the flags of all commands. What --help says beside them, each command's page says with more words.
func commandsPage(a *cli.App) string {
	var b strings.Builder
	b.WriteString("# Commands and flags\n\nGenerated from the code (`make generate`). `mcp-tether COMMAND --help` and the man pages have examples, too.\n")
	for _, c := range documented(a) {
		fmt.Fprintf(&b, "\n## %s\n\n%s. [More](%s).\n\n    %s\n\n", c.Name, strings.ToUpper(c.Usage[:1])+c.Usage[1:], pages[c.Name],
			strings.ReplaceAll(c.UsageText, "\n", "\n    "))
		b.WriteString("| flag | meaning |\n|---|---|\n")
		for _, f := range flagsOf(c) {
			names := code(strings.TrimSpace("--" + f.name + " " + f.value))
			if f.short != "" {
				names += ", " + code("-"+f.short)
			}
			if f.variable != "" {
				names += ", " + code(f.variable)
			}
			meaning := cell(f.usage)
			if f.byDefault != "" {
				meaning += " (default " + code(f.byDefault) + ")"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", names, meaning)
		}
	}
	return b.String()
}

// cell escapes a text for a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(s)
}

// code sets a word in the type of code.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func seeAlso(a *cli.App, own string) string {
	var all []string
	if own != "" {
		all = append(all, ".BR mcp\\-tether (1)")
	}
	for _, c := range documented(a) {
		if c.Name != own {
			all = append(all, ".BR mcp\\-tether\\-"+c.Name+" (1)")
		}
	}
	return strings.Join(all, ",\n") + "\n"
}

func TestEveryCommandHasAPage(t *testing.T) {
	var names []string
	for _, c := range documented(app([]string{"mcp-tether"}, io.Discard, nil)) {
		names = append(names, c.Name)
	}
	for name := range pages {
		if !slices.Contains(names, name) {
			t.Errorf("no command %s", name)
		}
	}
	if len(names) != len(pages) {
		t.Errorf("commands %v, pages of %d", names, len(pages))
	}
}

// copied is a command line that a reader may copy, and explained is one with an explanation that a shell would take for
// arguments.
var (
	copied    = regexp.MustCompile(`^ {3,4}(mcp-tether|make|systemctl|apt|npm|docker|kubectl|\*/5) `)
	explained = regexp.MustCompile(`\S {2,}[^#\s]`)
)

// An explanation beside a command begins with "#", on pages and in help texts.
func TestCommandsCanBeCopied(t *testing.T) {
	inRoot(t)
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
	}
	for _, c := range documented(app([]string{"mcp-tether"}, io.Discard, nil)) {
		texts[c.Name+" --help"] = c.Description
	}
	lines := 0
	for name, text := range texts {
		for line := range strings.Lines(text) {
			if copied.MatchString(line) {
				lines++
				if explained.MatchString(line) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
	if lines < 50 || !explained.MatchString("    mcp-tether ps   until interrupted") {
		t.Errorf("%d lines: the test shows nothing", lines)
	}
}

// shownFile is a block of a page that begins with the name of a file of scripts/packaging/. Its groups are the name,
// and what the block says the file holds.
var shownFile = regexp.MustCompile("(?s)```\\w+\n# (scripts/packaging/[^\n]+)\n(.*?)```\n")

// linkedFile is a link to an example, which may be too long to be shown.
var linkedFile = regexp.MustCompile(`\]\(\.\./(scripts/packaging/examples/[^)]+)\)`)

// Such a block shows that file as it is, and each example is shown or linked.
func TestPagesShowFiles(t *testing.T) {
	inRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shownFile.FindAllStringSubmatch(string(b), -1) {
			file, err := os.ReadFile(block[1])
			if err != nil || string(file) != block[2] {
				t.Errorf("%s does not show %s as it is (%v)", page, block[1], err)
			}
			shown[block[1]] = true
		}
		for _, link := range linkedFile.FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(link[1]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
			shown[link[1]] = true
		}
	}
	for _, dir := range []string{"scripts/packaging/systemd/*", "scripts/packaging/examples/*"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			if !shown[f] && f != crontab {
				t.Errorf("no page shows %s", f)
			}
		}
	}
	line, err := os.ReadFile(crontab)
	if b, perr := os.ReadFile("docs/cron.md"); err != nil || perr != nil || !strings.Contains(string(b), "    "+string(line)) {
		t.Errorf("docs/cron.md does not show the crontab: %v, %v", err, perr)
	}
}

// crontab is one line, which its page shows without its name.
const crontab = "scripts/packaging/examples/crontab"
