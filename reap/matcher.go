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
	// From is the file that names it, UID its owner: a file speaks for its owner's processes only, unless AnyUser.
	From    string
	UID     int
	AnyUser bool
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
	// image is the one that a container engine's client runs; "" for other commands.
	image string
}

// NewMatcher prepares the comparison. pattern may be nil.
func NewMatcher(servers []Server, pattern *regexp.Regexp) *Matcher {
	m := &Matcher{pattern: pattern}
	for _, s := range servers {
		m.servers = append(m.servers, known{s, packageOf(s), configuredImage(s)})
	}
	return m
}

// Match reports whether a command line of a user is that of a known server, and its name. A configuration speaks for the
// processes of its owner only.
func (m *Matcher) Match(uid int, args []string) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	for i := range m.servers {
		k := &m.servers[i]
		if (k.AnyUser || k.UID == uid) && k.matches(args) {
			return k.Name, true
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

// Image reports whether a known server is started from an image, and its name. A container has no owner that could be
// told, so all that the user of the pass has configured counts, and for root everybody's.
func (m *Matcher) Image(uid int, image string) (string, bool) {
	image = canonicalImage(image)
	for i := range m.servers {
		k := &m.servers[i]
		if k.image == image && (k.AnyUser || uid == 0 || k.UID == uid) {
			return k.Name, true
		}
	}
	return "", false
}

// runners fetch a package and run what it contains, after one of the verbs where there are any ("npm exec"; "npm run"
// runs a script of the project instead).
var runners = map[string][]string{
	"npx": nil, "bunx": nil, "uvx": nil, "pipx": {"run"}, "npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"},
	"uv": {"tool run", "x"},
}

// valueFlags of runners are followed by a value.
var valueFlags = []string{"-p", "--package", "--from", "--with", "--python", "--prefix", "--registry", "--directory", "--project"}

// packageOf finds the package in the command line of a package runner.
func packageOf(s Server) string {
	verbs, ok := runners[path.Base(s.Command)]
	if !ok {
		return ""
	}
	var words []string
	for i := 0; i < len(s.Args); i++ {
		switch a := s.Args[i]; {
		case slices.Contains(valueFlags, a):
			i++
		case !strings.HasPrefix(a, "-"):
			words = append(words, a)
		}
	}
	if len(verbs) > 0 {
		line := strings.Join(words, " ")
		n := slices.IndexFunc(verbs, func(v string) bool { return strings.HasPrefix(line, v+" ") })
		if n < 0 {
			return ""
		}
		words = words[len(strings.Fields(verbs[n])):]
	}
	if len(words) == 0 || isTool(words[0]) {
		return ""
	}
	return withoutVersion(words[0])
}

// isTool reports whether a word names no package of a server: a script, or a tool that runs one.
func isTool(w string) bool {
	switch w {
	case "tsx", "ts-node", "mcp", "nodemon", "run", "start":
		return true
	}
	script := strings.HasSuffix(w, ".ts") || strings.HasSuffix(w, ".js") || strings.HasSuffix(w, ".py") || strings.HasSuffix(w, ".mjs")
	return script || strings.HasPrefix(w, "/") || strings.HasPrefix(w, ".") || isInterpreter(w)
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
	if len(args) == 0 {
		return false
	}
	command := path.Base(args[0])
	if packageOf(Server{Command: command, Args: args[1:]}) == k.pkg {
		return true
	}
	if k.isProgram(args[0]) {
		return true
	}
	if !isInterpreter(command) {
		return false
	}
	script := firstWord(args[1:])
	// node may run the package runner itself: "node /usr/bin/npx PACKAGE".
	if i := slices.Index(args, script); script != "" && i+1 < len(args) && isRunnerScript(script) {
		return packageOf(Server{Command: strings.TrimSuffix(path.Base(script), "-cli.js"), Args: args[i+1:]}) == k.pkg
	}
	return k.isProgram(script) || strings.Contains(script, "/node_modules/"+k.pkg+"/")
}

// isProgram reports whether a word is the program that the package installs: "server-x" or "mcp-server-x".
func (k *known) isProgram(w string) bool {
	base, name := path.Base(k.pkg), path.Base(w)
	return name != "" && (name == base || name == "mcp-"+base)
}

func isRunnerScript(script string) bool {
	_, ok := runners[strings.TrimSuffix(path.Base(script), "-cli.js")]
	return ok
}

// firstWord is the first that is no flag: the script of an interpreter, or the command after "sh -c".
func firstWord(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			word, _, _ := strings.Cut(a, " ")
			return word
		}
	}
	return ""
}

// same compares with a command that fetches no package: the configured words, in order, at the end of the line, alone or
// after an interpreter. A bare interpreter would match anything, so it takes an argument.
func (k *known) same(args []string) bool {
	want := append([]string{k.Command}, k.Args...)
	if len(k.Args) == 0 && isInterpreter(path.Base(k.Command)) || len(args) < len(want) || len(args) > len(want)+1 {
		return false
	}
	if len(args) == len(want)+1 && !isInterpreter(path.Base(args[0])) {
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
