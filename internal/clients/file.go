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

// Server is one MCP server that a gateway starts as a process, as the configuration file has it.
type Server struct {
	Name, Command string
	Args          []string
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

// Known reads the files of the known gateways below the given home directories, and those of the projects that they
// name: the same that wrap changes. They speak for the user that reads them, whichever user has written them. It passes over files
// that are missing or closed to us, and calls warn for others that cannot be read.
func Known(homes []string, warn func(error)) (out []File) {
	var seen []fs.FileInfo
	add := func(name string) (f File) {
		text, st, err := readFile(name, false)
		again := func(other fs.FileInfo) bool { return os.SameFile(st, other) }
		switch {
		case err == nil && slices.ContainsFunc(seen, again):
			return f
		case err == nil:
			seen = append(seen, st)
			f, err = readServers(text, formatOf(name))
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			return f
		}
		if err != nil {
			warn(fmt.Errorf("read configuration %s: %w", name, err))
			return f
		}
		out = append(out, f)
		return f
	}
	for _, home := range homes {
		for _, p := range Places(home) {
			for _, dir := range add(p.Path).projects {
				add(filepath.Join(dir, projectFile))
			}
		}
	}
	return out
}

// Named reads one file that the user named.
func Named(name string) (File, error) {
	text, _, err := readFile(name, true)
	if err != nil {
		return File{}, fmt.Errorf("read configuration %s: %w", name, err)
	}
	f, err := readServers(text, formatOf(name))
	if err != nil {
		return File{}, fmt.Errorf("read configuration %s: %w", name, err)
	}
	f.AnyUser = true
	return f, nil
}

// Homes are the home directories of the user: $HOME, and the one in the machine's list of users. A directory of another user is
// passed over: sudo keeps the variable, and root has no business there.
func Homes() (out []string) {
	var candidates []string
	if h, err := os.UserHomeDir(); err == nil {
		candidates = append(candidates, h)
	}
	if u, err := user.Current(); err == nil {
		candidates = append(candidates, u.HomeDir)
	}
	for _, h := range candidates {
		if h = filepath.Clean(h); !filepath.IsAbs(h) || h == "/" || slices.Contains(out, h) {
			continue
		}
		if st, err := os.Stat(h); err == nil && st.IsDir() && owner(st) == os.Getuid() {
			out = append(out, h)
		}
	}
	return out
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
			f.Servers = append(f.Servers, Server{Name: e.name, Command: e.command.text, Args: e.words()})
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
	// Some editors write a byte order mark.
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if format == TOML {
		err = toml.Unmarshal(text, &doc)
		return doc, err
	}
	if json.Unmarshal(text, &doc) == nil {
		return doc, nil
	}
	root, err := Parse(text)
	if err != nil {
		return nil, err
	}
	doc, object := root.Any().(map[string]any)
	if !object {
		return nil, ErrNotObject
	}
	return doc, nil
}
