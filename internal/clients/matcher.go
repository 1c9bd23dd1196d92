package clients

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Matcher recognises the command lines of MCP servers. A match proves nothing: it says which processes to examine.
type Matcher struct {
	servers []configured
	pattern *regexp.Regexp
}

// configured is a server in the form that is compared.
type configured struct {
	Server
	// pkg is the package that a package runner fetches, without version; "" for other commands.
	pkg string
}

// NewMatcher prepares the comparison with servers. A command line that matches pattern is taken for a server of any user;
// pattern may be nil.
func NewMatcher(servers []Server, pattern *regexp.Regexp) *Matcher {
	m := &Matcher{pattern: pattern}
	for _, s := range servers {
		m.servers = append(m.servers, configured{s, PackageOf(s.Args[0], s.Args[1:])})
	}
	return m
}

// Running is a process as a Matcher compares it.
type Running struct {
	UID  int
	Args []string
}

// Match reports whether a process runs a known server, and gives the server's name. A configuration
// speaks for the processes of its owner only.
func (m *Matcher) Match(p Running) (name string, ok bool) {
	for i := range m.servers {
		s := &m.servers[i]
		if (s.UID == AnyUser || s.UID == p.UID) && (s.matches(p.Args) || s.matches(untitled(p.Args))) {
			return s.Name, true
		}
	}
	if m.pattern == nil || len(p.Args) == 0 {
		return "", false
	}
	line := strings.Join(p.Args, " ")
	return m.pattern.FindString(line), m.pattern.MatchString(line)
}

// Mentions reports whether a launcher's command line speaks of a server: both have a word with the same base name.
// Interpreters and package runners are in too many command lines to say anything, and so are short words.
func Mentions(launcher, server []string) bool {
	words := map[string]bool{}
	for _, a := range launcher {
		for w := range strings.FieldsSeq(a) {
			words[path.Base(w)] = true
		}
	}
	return slices.ContainsFunc(server, func(word string) bool {
		base := path.Base(word)
		_, runner := runners[base]
		return words[base] && !runner && len(base) > 3 && !isInterpreter(base) && !strings.HasPrefix(base, "-")
	})
}

// matches compares a command line with the server.
func (s *configured) matches(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if s.pkg == "" {
		return s.same(args)
	}
	command := path.Base(args[0])
	if PackageOf(command, args[1:]) == s.pkg {
		return true
	}
	if s.isProgram(args[0]) {
		return true
	}
	if !isInterpreter(command) {
		return false
	}
	script := firstWord(args[1:])
	// node may run the package runner itself: "node /usr/bin/npx PACKAGE".
	if i := slices.Index(args, script); script != "" && i+1 < len(args) && isRunnerScript(script) {
		return PackageOf(strings.TrimSuffix(path.Base(script), "-cli.js"), args[i+1:]) == s.pkg
	}
	return s.isProgram(script) || strings.Contains(script, "/node_modules/"+s.pkg+"/")
}

// untitled undoes what npm makes of its command line. npm sets a title in one word, "npm exec @scope/name", padded with
// zero bytes to the length of what was there before. An empty line stays one empty word.
func untitled(args []string) []string {
	n := len(args)
	for n > 1 && args[n-1] == "" {
		n--
	}
	if n != 1 {
		return args
	}
	if words := strings.Fields(args[0]); len(words) > 0 {
		return words
	}
	return args
}

// isProgram reports whether a word is the program that the package installs: "server-x" or "mcp-server-x".
func (s *configured) isProgram(w string) bool {
	base, name := path.Base(s.pkg), path.Base(w)
	return name != "" && (name == base || name == "mcp-"+base)
}

// same compares with a command that fetches no package. The configured words must be the last of the line, alone or after
// an interpreter. A configured interpreter without arguments would match anything, and so matches nothing.
func (s *configured) same(args []string) bool {
	want := s.Args
	if len(want) == 1 && isInterpreter(path.Base(want[0])) || len(args) < len(want) || len(args) > len(want)+1 {
		return false
	}
	if len(args) == len(want)+1 && !isInterpreter(path.Base(args[0])) {
		return false
	}
	tail := args[len(args)-len(want):]
	return path.Base(tail[0]) == path.Base(want[0]) && slices.Equal(tail[1:], want[1:])
}
