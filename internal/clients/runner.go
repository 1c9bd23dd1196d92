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
var valueFlags = []string{"-p", "--package", "--from", "--with", "--python", "--prefix", "--registry", "--directory", "--project"}

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
	var words []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case slices.Contains(valueFlags, a):
			i++
		case !strings.HasPrefix(a, "-"):
			words = append(words, a)
		}
	}
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

// scriptOf is the script, with its arguments, in the command line of a runner that runs scripts: "uv run server.py", "npx tsx
// server.ts". nil for other commands.
func scriptOf(command string, args []string) []string {
	if !IsRunner(command) {
		return nil
	}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case slices.Contains(valueFlags, a):
			i++
		case strings.HasPrefix(a, "-"), a == "run", a == "exec", isScriptTool(a), isInterpreter(a):
		case isScript(a):
			return args[i:]
		default:
			return nil
		}
	}
	return nil
}

// projectScript is the script of a project that a package manager runs, and the directory of the project. For "npm
// --prefix /x run start" these are "start" and "/x". Both are "" for other commands, and where the directory is not
// named.
func projectScript(command string, args []string) (script, project string) {
	switch path.Base(command) {
	case "npm", "pnpm":
	default:
		return "", ""
	}
	var words []string
	for i := 0; i < len(args); i++ {
		flag, value, attached := strings.Cut(args[i], "=")
		switch {
		case flag == "--prefix" || flag == "-C" || flag == "--dir":
			if !attached && i+1 < len(args) {
				i++
				value = args[i]
			}
			project = path.Clean(value)
		case !strings.HasPrefix(flag, "-"):
			words = append(words, args[i])
		}
	}
	switch {
	case !path.IsAbs(project) || len(words) == 0:
		return "", ""
	case words[0] == "start" || words[0] == "test":
		return words[0], project
	case len(words) > 1 && (words[0] == "run" || words[0] == "run-script"):
		return words[1], project
	}
	return "", ""
}

// isScriptTool reports whether a program runs a script of TypeScript.
func isScriptTool(name string) bool { return name == "tsx" || name == "ts-node" }

// isScript reports whether a word is the name of a script.
func isScript(w string) bool {
	switch path.Ext(w) {
	case ".ts", ".js", ".py", ".mjs", ".mts", ".cjs":
		return true
	}
	return false
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
