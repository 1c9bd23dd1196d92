package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pelletier/go-toml/v2"

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

// Server is one MCP server that a gateway starts as a process. Args is the command line that runs in the end, without mcp-tether.
type Server struct {
	Name string
	Args []string
}

// File is one configuration file as it was read.
type File struct {
	// UID is the user for whose processes the file speaks. AnyUser says that the user of the pass named the file, so it
	// speaks for the processes of every user.
	UID     int
	AnyUser bool
	// Servers are those that the file starts as processes.
	Servers []Server
	// projects are the directories in which Claude Code has worked.
	projects []string
}

// Known reads the files of the known gateways below a home directory, and those of the projects that they
// name: the same that wrap changes. They speak for the user that reads them, whichever user has written them. It passes over files
// that are missing or closed to us, and calls warn for others that cannot be read.
func Known(home string, warn func(error)) (out []File) {
	var seen []fs.FileInfo
	var add func(name string)
	add = func(name string) {
		f, st, err := readConfiguration(name, false)
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
		out = append(out, f)
		for _, dir := range f.projects {
			add(filepath.Join(dir, projectFile))
		}
	}
	for _, p := range Places(home) {
		add(p.Path)
	}
	return out
}

// Named reads one file that the user named.
func Named(name string) (File, error) {
	f, _, err := readConfiguration(name, true)
	f.AnyUser = true
	return f, err
}

// readConfiguration reads the servers in a file.
func readConfiguration(name string, named bool) (f File, st fs.FileInfo, err error) {
	text, st, err := readFile(name, named)
	if err == nil {
		f, err = readServers(text, formatOf(name))
	}
	if err != nil {
		err = fmt.Errorf("read configuration %s: %w", name, err)
	}
	return f, st, err
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

// readServers reads the servers in a text.
func readServers(text []byte, format Format) (File, error) {
	f := File{UID: os.Getuid()}
	found, o, err := entries(text, format)
	if err != nil {
		return f, err
	}
	for i := range found {
		if e := &found[i]; e.command.text != "" {
			f.Servers = append(f.Servers, Server{e.name, e.started(e.commandAt())})
		}
	}
	f.projects = slices.DeleteFunc(o.projects, func(dir string) bool { return !filepath.IsAbs(dir) })
	return f, nil
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

// parse decodes a document.
func parse(text []byte, format Format) (doc map[string]any, err error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if format == TOML {
		err = toml.Unmarshal(text, &doc)
		return doc, err
	}
	if json.Unmarshal(text, &doc) == nil {
		return doc, nil
	}
	root, err := treeOf(text, format)
	if err != nil {
		return nil, err
	}
	doc, _ = root.asAny().(map[string]any)
	return doc, nil
}
