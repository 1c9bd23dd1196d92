package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// theApp is the program with all commands.
func theApp() *cli.App { return app(io.Discard, commands(false, nil)) }

// generated are the files that follow from the flags, and what they must hold.
func generated() map[string]string {
	a := theApp()
	files := map[string]string{
		"docs/commands.md":                   commandsPage(a),
		"scripts/packaging/man/mcp-tether.1": mainPage(a),
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
	const dir = "scripts/packaging/man"
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

// pages are the pages of docs/ about a command and its flags.
var pages = map[string]string{
	"run": "reference.md", "reap": "reap.md", "ps": "ps-stop.md", "stop": "ps-stop.md", "restart": "restart.md", "wrap": "wrap.md", "unwrap": "wrap.md", "doctor": "doctor.md", "history": "history.md",
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
	group := ""
	for _, f := range visible(tableOf(c.Name)) {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, ".SS %s\n", roff(group))
		}
		word, usage := placeholder(&f)
		fmt.Fprintf(&b, ".TP\n.B \\-\\-%s", roff(f.Name))
		if f.Short != "" {
			fmt.Fprintf(&b, ", \\-%s", f.Short)
		}
		if word != "" {
			fmt.Fprintf(&b, " \\fI%s\\fR", roff(word))
		}
		fmt.Fprintf(&b, "\n%s", roff(usage))
		if d := defaultOf(&f); d != "" {
			fmt.Fprintf(&b, " (default %s)", roff(d))
		}
		if f.Env != "" {
			fmt.Fprintf(&b, "\n.br\nEnvironment: %s", f.Env)
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
		group := ""
		for _, f := range visible(tableOf(c.Name)) {
			if f.Group != group {
				group = f.Group
				fmt.Fprintf(&b, "| **%s** | |\n", group)
			}
			word, usage := placeholder(&f)
			names := code(strings.TrimSpace("--" + f.Name + " " + word))
			if f.Short != "" {
				names += ", " + code("-"+f.Short)
			}
			if f.Env != "" {
				names += ", " + code(f.Env)
			}
			meaning := cell(usage)
			if d := defaultOf(&f); d != "" {
				meaning += " (default " + code(d) + ")"
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
	for _, c := range documented(theApp()) {
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
