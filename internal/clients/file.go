package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"

	"mcp-tether/internal/jsonedit"
)

// projectFile is where Claude Code keeps the servers of one project, relative to the project's directory.
const projectFile = ".mcp.json"

// Bounds of one configuration file and of all together, in bytes. Claude Code's file grows with use.
const (
	maxFile = 8 << 20
	maxAll  = 16 << 20
)

// Format is the language of a configuration file.
type Format string

// The formats. JSON is read with comments, trailing commas and whatever else JSON5 allows: most clients do.
const (
	JSON Format = "json"
	TOML Format = "toml"
	// foreign is any language that is not read.
	foreign Format = "foreign"
)

// File is one configuration file as it was read.
type File struct {
	Path   string
	Format Format
	// UID is the user for whose processes the file speaks. AnyUser says that the user of the pass named the file, so it
	// speaks for the processes of every user.
	UID     int
	AnyUser bool
	// Servers are those that the file starts as processes, in the order of their keys.
	Servers []Server
	// projects are the directories in which Claude Code has worked.
	projects []string
}

// Known reads the files of the known gateways below the given home directories, and those of the projects that they
// name. They speak for the user that reads them, whichever user has written them. It passes over files that are missing
// or closed to us, and calls warn for others that cannot be read.
func Known(homes []string, warn func(error)) []File {
	var out []File
	r := &reader{left: maxAll, seen: map[fileID]bool{}, timeout: fileTimeout}
	for _, home := range homes {
		for _, name := range homeFiles(home) {
			file, err := r.read(name)
			switch {
			case err == nil:
				out = append(out, file)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errSeen):
				warn(err)
			}
			for _, dir := range file.projects {
				project, err := r.read(filepath.Join(dir, projectFile))
				if err == nil {
					out = append(out, project)
				} else if errors.Is(err, ErrLate) {
					warn(err)
				}
			}
		}
	}
	return out
}

// Named reads one file that the user named.
func Named(name string) (File, error) {
	r := &reader{left: maxFile, seen: map[fileID]bool{}, timeout: fileTimeout, named: true}
	file, err := r.read(name)
	file.AnyUser = true
	return file, err
}

// Homes are the home directories of the user: $HOME, the one in the machine's list of users, and further ones as named. A
// directory of another user is passed over: sudo keeps the variable, and root has no business there. warn gets an error
// for each directory that does not answer in time.
func Homes(further []string, warn func(error)) []string {
	var out []string
	candidates := further
	if h, err := os.UserHomeDir(); err == nil {
		candidates = append([]string{h}, candidates...)
	}
	if u, err := user.Current(); err == nil {
		candidates = append(candidates, u.HomeDir)
	}
	for _, h := range candidates {
		if h = filepath.Clean(h); !filepath.IsAbs(h) || h == "/" || slices.Contains(out, h) {
			continue
		}
		own, err := ownDir(h)
		if err != nil {
			warn(err)
		}
		if own {
			out = append(out, h)
		}
	}
	return out
}

// reader reads configuration files, each only once, and no more than left in all.
type reader struct {
	left    int64 // bytes
	seen    map[fileID]bool
	timeout time.Duration // with the next file
	// named says that the user named the file, so it may belong to any user.
	named bool
}

// fileID identifies a file, whatever names it has.
type fileID struct{ dev, ino uint64 }

// How long a file may keep its reader waiting, and the least time that is left to a file after others did not answer.
const (
	fileTimeout    = time.Second
	minFileTimeout = 10 * time.Millisecond
)

// ErrLate says that a file could not be read in time: its file system does not answer.
var ErrLate = errors.New("it did not answer in time")

// Why a file is not read.
var (
	errSeen     = errors.New("read under another name already")
	errKind     = errors.New("not a regular file")
	errTooLarge = errors.New("too large")
	errNotOwn   = errors.New("it belongs to another user")
)

// read reads one file. The error names it.
func (r *reader) read(name string) (File, error) {
	text, err := r.readRegular(name)
	if err != nil {
		return File{}, fmt.Errorf("read configuration %s: %w", name, err)
	}
	f := File{Path: name, Format: formatOf(name), UID: os.Getuid()}
	doc, err := parse(text, f.Format)
	if err != nil {
		return File{}, fmt.Errorf("parse configuration %s: %w", name, err)
	}
	f.Servers, f.projects = servers(doc, nil), projects(doc)
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
	root, err := jsonedit.Parse(text)
	if err != nil {
		return nil, err
	}
	doc, object := root.Any().(map[string]any)
	if !object {
		return nil, jsonedit.ErrNotObject
	}
	return doc, nil
}
