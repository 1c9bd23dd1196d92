package clients

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"

	"mcp-tether/internal/proc"
)

// projectFile is where Claude Code keeps the servers of one project, relative to the project's directory.
const projectFile = ".mcp.json"

// Format is the language of a configuration file.
type Format string

// The formats. JSON is read with comments, trailing commas and what else clients allow.
const (
	JSON Format = "json"
	TOML Format = "toml"
	// foreign is any language that is not read.
	foreign Format = "foreign"
)

// Server is one MCP server that a gateway starts as a process.
type Server struct {
	Name string
	// Args is the command line that runs in the end, without mcp-tether.
	Args []string
	// UID is the user for whose processes the configuration speaks, or AnyUser.
	UID int
}

// AnyUser is every user: the user of the pass has named the file.
const AnyUser = -1

// Known reads the servers in the files of the known gateways below a home directory, and in those of the projects that they
// name. They speak for the user that reads them, whichever user has written them. It passes over files that are missing or
// closed to us, and calls warn for others that cannot be read.
func Known(home string, warn func(error)) (all []Server) {
	var seen []fs.FileInfo
	var add func(name string)
	add = func(name string) {
		servers, projects, st, err := readServers(name, false)
		again := func(other fs.FileInfo) bool { return os.SameFile(st, other) }
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), st != nil && slices.ContainsFunc(seen, again):
			return
		case st != nil:
			seen = append(seen, st)
		}
		if err != nil {
			warn(err)
			return
		}
		all = append(all, servers...)
		for _, dir := range projects {
			if filepath.IsAbs(dir) {
				add(filepath.Join(dir, projectFile))
			}
		}
	}
	for _, p := range Places(home) {
		add(p.Path)
	}
	return all
}

// Named reads the servers in a file that the user named.
func Named(name string) ([]Server, error) {
	all, _, _, err := readServers(name, true)
	for i := range all {
		all[i].UID = AnyUser
	}
	return all, err
}

// readServers reads the servers in a file, and the directories of the projects that it names.
func readServers(name string, named bool) (all []Server, projects []string, st fs.FileInfo, err error) {
	text, st, err := readFile(name, named)
	var found []entry
	var o others
	if err == nil {
		found, o, err = entries(text, formatOf(name))
	}
	if err != nil {
		return nil, nil, st, fmt.Errorf("read configuration %s: %w", name, err)
	}
	for i := range found {
		if e := &found[i]; e.command.text != "" {
			all = append(all, Server{e.name, e.started(e.commandAt()), os.Getuid()})
		}
	}
	return all, o.projects, st, nil
}

// Home is the home directory of the user: $HOME, or the one in the machine's list of users where that is another user's: sudo keeps the
// variable, and root has no business there. It is "" if neither is the user's own.
func Home() string {
	at := []string{os.Getenv("HOME")}
	if u, err := user.Current(); err == nil {
		at = append(at, u.HomeDir)
	}
	for _, h := range at {
		if st, err := os.Stat(h); err == nil && filepath.IsAbs(h) && st.IsDir() && owner(st) == os.Getuid() && h != "/" {
			return h
		}
	}
	return ""
}

// owner is the user that a file belongs to.
func owner(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// Why a file is not read.
var (
	errKind     = errors.New("not a regular file: name another")
	errTooLarge = fmt.Errorf("larger than %d MiB: make it smaller", proc.MaxConfig>>20)
	errNotOwn   = errors.New("it belongs to another user")
)

// readFile reads a regular file that is not too large. It follows links, because people keep their settings in other places, and
// waits for no writer of a FIFO. Root reads nothing but what root has written, or named.
func readFile(name string, named bool) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, withoutName(err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, withoutName(err)
	case !st.Mode().IsRegular():
		return nil, nil, errKind
	case os.Getuid() == 0 && owner(st) != 0 && !named:
		return nil, nil, errNotOwn
	}
	text, err := io.ReadAll(io.LimitReader(f, proc.MaxConfig+1))
	if len(text) > proc.MaxConfig {
		err = errTooLarge
	}
	return text, st, err
}

// formatOf recognises the format by the name; JSON may turn out to be JSON5.
func formatOf(name string) Format {
	switch filepath.Ext(name) {
	case ".toml":
		return TOML
	case ".yaml", ".yml", ".xml":
		return foreign
	}
	return JSON
}
