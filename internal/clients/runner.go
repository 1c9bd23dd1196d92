package clients

import (
	"path"
	"slices"
	"strings"
)

// runners are the package runners: they fetch a package and run a program of it. Those with verbs do so after one of the
// verbs only: "npm exec" does, "npm run" runs a script of the project.
var runners = map[string][]string{
	"npx": nil, "bunx": nil, "uvx": nil, "pipx": {"run"}, "npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"},
	"uv": {"tool run", "x"},
}

// valueFlags are the flags of package runners that are followed by a value.
var valueFlags = []string{
	"-p", "--package", "--from", "--with", "--python", "--registry", "--directory", "--project", "--prefix", "--dir", "--cwd", "-C",
}

// wordsOf are the words in the command line of a package runner that are neither flags nor values of flags.
func wordsOf(args []string) (words []string) {
	for i := 0; i < len(args); i++ {
		flag, _, attached := strings.Cut(args[i], "=")
		switch {
		case slices.Contains(valueFlags, flag) && !attached:
			i++
		case !strings.HasPrefix(flag, "-"):
			words = append(words, args[i])
		}
	}
	return words
}

// IsRunner reports whether a command is a package runner.
func IsRunner(command string) bool {
	_, ok := runners[path.Base(command)]
	return ok
}

// PackageOf is the package in the command line of a package runner, without version; "" for other commands.
func PackageOf(command string, args []string) string {
	verbs, ok := runners[path.Base(command)]
	if !ok {
		return ""
	}
	words := wordsOf(args)
	if len(verbs) > 0 {
		n := slices.IndexFunc(verbs, func(v string) bool { return startsWith(words, strings.Fields(v)) })
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

func startsWith(words, first []string) bool {
	return len(words) >= len(first) && slices.Equal(words[:len(first)], first)
}

// isTool reports whether a word after a package runner names no server: a script, or a tool that runs one.
func isTool(w string) bool {
	switch w {
	case "tsx", "ts-node", "mcp", "nodemon", "run", "start":
		return true
	}
	script := strings.HasSuffix(w, ".ts") || strings.HasSuffix(w, ".js") || strings.HasSuffix(w, ".py") || strings.HasSuffix(w, ".mjs")
	return script || strings.HasPrefix(w, "/") || strings.HasPrefix(w, ".") || isInterpreter(w)
}

// withoutVersion cuts "@1.2.3" and "==1.2.3", and leaves the '@' of a scope.
func withoutVersion(pkg string) string {
	pkg, _, _ = strings.Cut(pkg, "==")
	if at := strings.LastIndexByte(pkg, '@'); at > 0 {
		return pkg[:at]
	}
	return pkg
}

// isRunnerScript reports whether a script is a package runner, such as npx-cli.js.
func isRunnerScript(script string) bool {
	return IsRunner(strings.TrimSuffix(path.Base(script), "-cli.js"))
}

// isInterpreter reports whether a program runs a script, so that its own name says nothing.
func isInterpreter(name string) bool {
	switch name {
	case "node", "bun", "deno", "sh", "bash", "dash", "zsh", "env", "ruby", "perl", "java":
		return true
	}
	return strings.HasPrefix(name, "python")
}

// firstWord is the first word that is no flag: the script of an interpreter, or the command after "sh -c".
func firstWord(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			word, _, _ := strings.Cut(a, " ")
			return word
		}
	}
	return ""
}

// ProgramOf is the name of the program in a command line that is not empty. An interpreter may run it.
func ProgramOf(args []string) string {
	name := path.Base(args[0])
	if isInterpreter(name) {
		name = path.Base(firstWord(args[1:]))
	}
	return strings.ToLower(strings.TrimSuffix(name, path.Ext(name)))
}

// RunsContainer reports whether a command line runs a container as a client of an engine. The container is no child of it.
func RunsContainer(args []string) bool {
	if len(args) == 0 {
		return false
	}
	base := path.Base(args[0])
	return (base == "docker" || base == "podman") && slices.Contains(args[1:], "run")
}
