package front

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/share"
)

// identity is all that what a server publishes may depend on, as far as it can be seen before the server is started: command
// line, program, files that are named in the command line, the package of a package runner, working directory,
// environment. found is false where it cannot be seen what the command starts.
func identity(command []string) (id string, found bool) {
	var b strings.Builder
	add := func(kind byte, text string) { fmt.Fprintf(&b, "%c%d:%s", kind, len(text), text) }
	for _, word := range command {
		add('w', word)
	}
	here, err := os.Getwd()
	program, lost := proc.LookPath(command[0], os.Getenv("PATH"))
	if err != nil || lost != nil {
		return "", false
	}
	add('d', here+" "+fileState(".", unix.S_IFDIR))
	add('p', program+" "+fileState(program, unix.S_IFREG))
	named := len(command)
	for _, word := range command[1:] {
		if s := fileState(word, unix.S_IFREG); s != "" {
			add('f', s)
			named--
		}
	}
	if clients.IsRunner(command[0]) {
		files := installed(path.Base(command[0]), clients.PackageOf(command[0], command[1:]), here)
		for _, file := range files {
			add('i', file)
		}
		if len(files) == 0 && named == len(command) {
			return "", false
		}
	}
	for _, e := range share.Environment(proc.Environ()) {
		add('e', e)
	}
	return b.String(), true
}

// fileState tells one file from another, and from the same file after a change; "" where there is none of the kind. Packages
// are unpacked with times of their own choice, so the time of the last change of the inode counts as well.
func fileState(name string, kind uint32) string {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil || kind != 0 && st.Mode&unix.S_IFMT != kind {
		return ""
	}
	if kind == unix.S_IFDIR {
		return fmt.Sprint(st.Dev, st.Ino)
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim)
}

// installed are the files of a package where npm or uv keeps it, which tell one version from another. There are none before
// the package was fetched, and for other package runners.
func installed(runner, pkg, here string) (files []string) {
	pkg, _, _ = strings.Cut(pkg, "[") // Extras of a package of Python.
	if pkg == "" {
		return nil
	}
	home, cache, file := os.Getenv("HOME"), "", ""
	var all []string
	switch runner {
	case "npx", "npm":
		cache, file = orElse("npm_config_cache", home+"/.npm")+"/_npx", "/node_modules/"+pkg+"/package.json"
		for dir := here; len(dir) > 1; dir = path.Dir(dir) {
			all = append(all, dir+file)
		}
	case "uvx", "uv":
		pkg = strings.ReplaceAll(strings.ToLower(pkg), "_", "-")
		cache, file = orElse("UV_CACHE_DIR", orElse("XDG_CACHE_HOME", home+"/.cache")+"/uv"), "/pypi/"+pkg
		all = append(all, orElse("UV_TOOL_DIR", orElse("XDG_DATA_HOME", home+"/.local/share")+"/uv/tools")+"/"+pkg)
	}
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		all = append(all, cache+"/"+e.Name()+file)
	}
	for _, name := range all {
		if s := fileState(name, 0); s != "" {
			files = append(files, name+" "+s)
		}
	}
	return files
}

func orElse(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}
