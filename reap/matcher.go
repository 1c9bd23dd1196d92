package reap

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Server is one MCP server as a gateway's configuration names it.
type Server struct {
	Name    string
	Command string
	Args    []string
	// From is the file that names it.
	From string
}

// Matcher recognises the command lines of MCP servers. A match proves nothing: it only says whom to look at.
type Matcher struct {
	servers []known
	pattern *regexp.Regexp
}

// known is a server in the form that is compared.
type known struct {
	Server
	// pkg is the package that a package runner fetches, without version; "" for other commands.
	pkg string
}

// NewMatcher prepares the comparison. pattern may be nil.
func NewMatcher(servers []Server, pattern *regexp.Regexp) *Matcher {
	m := &Matcher{pattern: pattern}
	for _, s := range servers {
		m.servers = append(m.servers, known{s, packageOf(s)})
	}
	return m
}

// Match reports whether a command line is that of a known server, and its name.
func (m *Matcher) Match(args []string) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	for i := range m.servers {
		if m.servers[i].matches(args) {
			return m.servers[i].Name, true
		}
	}
	if m.pattern == nil {
		return "", false
	}
	if line := strings.Join(args, " "); m.pattern.MatchString(line) {
		return m.pattern.FindString(line), true
	}
	return "", false
}

// runners fetch a package and run what it contains; the words are those that may stand before the package.
var runners = map[string][]string{
	"npx": nil, "bunx": nil, "uvx": nil, "pipx": {"run"}, "npm": {"exec", "x"}, "pnpm": {"dlx", "exec"}, "yarn": {"dlx"},
	"bun": {"x"}, "uv": {"tool", "run", "x"},
}

// valueFlags of runners are followed by a value.
var valueFlags = []string{"-p", "--package", "--from", "--with", "--python", "--prefix", "--registry", "--directory", "--project"}

// packageOf finds the package in the command line of a package runner.
func packageOf(s Server) string {
	verbs, ok := runners[path.Base(s.Command)]
	if !ok {
		return ""
	}
	for i := 0; i < len(s.Args); i++ {
		a := s.Args[i]
		switch {
		case slices.Contains(valueFlags, a):
			i++
		case strings.HasPrefix(a, "-"), slices.Contains(verbs, a):
		default:
			return withoutVersion(a)
		}
	}
	return ""
}

// withoutVersion cuts "@1.2.3" and "==1.2.3", not the scope's '@'.
func withoutVersion(pkg string) string {
	pkg, _, _ = strings.Cut(pkg, "==")
	if at := strings.LastIndexByte(pkg, '@'); at > 0 {
		return pkg[:at]
	}
	return pkg
}

func (k *known) matches(args []string) bool {
	if k.pkg == "" {
		return k.same(args)
	}
	// npm's title is one word: "npm exec @scope/name".
	if len(args) == 1 {
		args = strings.Fields(args[0])
	}
	base := path.Base(k.pkg)
	for i, a := range args {
		switch {
		case withoutVersion(a) == k.pkg, strings.Contains(a, "/node_modules/"+k.pkg+"/"):
			return true
		case i <= 1 && isScript(args, i) && (path.Base(a) == base || path.Base(a) == "mcp-"+base):
			return true
		}
	}
	return false
}

// isScript reports whether word i is the program that runs: the command itself, or the script of an interpreter.
func isScript(args []string, i int) bool {
	if i == 0 {
		return true
	}
	switch name := path.Base(args[0]); {
	case name == "node", name == "bun", name == "deno", strings.HasPrefix(name, "python"), name == "sh" && args[1] != "-c":
		return strings.Contains(args[i], "/")
	}
	return false
}

// same compares with a command that is no package runner: the configured words, in order, at the end of the line (an
// interpreter may stand before a script). A bare interpreter would match anything, so it takes an argument.
func (k *known) same(args []string) bool {
	want := append([]string{k.Command}, k.Args...)
	if len(k.Args) == 0 && isInterpreter(path.Base(k.Command)) || len(args) < len(want) || len(args) > len(want)+1 {
		return false
	}
	tail := args[len(args)-len(want):]
	return path.Base(tail[0]) == path.Base(want[0]) && slices.Equal(tail[1:], want[1:])
}

func isInterpreter(name string) bool {
	switch name {
	case "node", "bun", "deno", "sh", "bash", "dash", "zsh", "env", "ruby", "perl", "java":
		return true
	}
	return strings.HasPrefix(name, "python")
}
