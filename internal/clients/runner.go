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

// readLine calls visit for the words in the command line of a package runner that are neither flags nor values of flags, with
// their places, until it returns false. dir is the directory that the flags so far name, "" for none.
func readLine(args []string, visit func(i int, word string) bool) (dir string) {
	for i := 0; i < len(args); i++ {
		flag, value, attached := strings.Cut(args[i], "=")
		if slices.Contains(valueFlags, flag) && !attached && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch flag {
		case "--directory", "--prefix", "--dir", "--cwd", "-C":
			dir = path.Clean(value)
		case "--project":
			// In "uv --directory /x --project /y run" names are relative to /x.
			if dir == "" {
				dir = path.Clean(value)
			}
		default:
			if !strings.HasPrefix(flag, "-") && !visit(i, args[i]) {
				return dir
			}
		}
	}
	return dir
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
	words, _ := wordsOf(args)
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

// wordsOf are all words of readLine.
func wordsOf(args []string) (words []string, dir string) {
	dir = readLine(args, func(_ int, word string) bool {
		words = append(words, word)
		return true
	})
	return words, dir
}

func startsWith(words, first []string) bool {
	return len(words) >= len(first) && slices.Equal(words[:len(first)], first)
}

// scriptOf is the script, with its arguments, in the command line of a runner that runs scripts: "uv run server.py", "npx tsx
// server.ts". It is nil for other commands. dir is the directory that the runner names for it, "" for none. A relative one says as
// little as the script's name, so there is no script then.
func scriptOf(command string, args []string) (script []string, dir string) {
	if !IsRunner(command) {
		return nil, ""
	}
	dir = readLine(args, func(i int, word string) bool {
		if isScript(word) {
			script = args[i:]
		}
		return word == "run" || word == "exec" || isScriptTool(word) || isInterpreter(word)
	})
	if dir != "" && !path.IsAbs(dir) {
		return nil, ""
	}
	return script, dir
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
	words, project := wordsOf(args)
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
