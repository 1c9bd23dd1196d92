package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
)

// knownFiles are the files in which the known gateways keep their MCP servers, relative to a home directory.
var knownFiles = [...]string{
	".codex/config.toml",
	".claude.json",
	".config/Claude/claude_desktop_config.json",
	"Library/Application Support/Claude/claude_desktop_config.json",
	".openclaw/openclaw.json",
	".gemini/settings.json",
	".cursor/mcp.json",
	".config/Code/User/mcp.json",
	"Library/Application Support/Code/User/mcp.json",
}

// projectFile is where Claude Code keeps the servers of one project, relative to the project's directory.
const projectFile = ".mcp.json"

// maxFile bounds a configuration file, in bytes. Claude Code's grows with use.
const maxFile = 64 << 20

// Format is the language of a configuration file.
type Format string

// The formats. JSONC is JSON with comments and trailing commas, as VS Code writes it.
const (
	JSON  Format = "json"
	JSONC Format = "jsonc"
	TOML  Format = "toml"
)

// File is one configuration file as it was read.
type File struct {
	Path   string
	Format Format
	// UID is the owner. AnyUser says that the user named the file, and means the processes of every user.
	UID     int
	AnyUser bool
	// Servers are those that the file starts as processes, in the order of their keys.
	Servers []Server
	// projects are the directories in which Claude Code has worked.
	projects []string
}

// Known reads the files of the known gateways below the given home directories, and those of the projects that they
// name. It passes over files that are missing or closed to us, and tells warn about others that cannot be read.
func Known(homes []string, warn func(error)) []File {
	var out []File
	for _, home := range homes {
		for _, name := range knownFiles {
			file, err := read(filepath.Join(home, name))
			switch {
			case err == nil:
				out = append(out, file)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
				warn(err)
			}
			for _, dir := range file.projects {
				if project, err := read(filepath.Join(dir, projectFile)); err == nil {
					out = append(out, project)
				}
			}
		}
	}
	return out
}

// Named reads one file that the user named.
func Named(name string) (File, error) {
	file, err := read(name)
	file.AnyUser = true
	return file, err
}

// Homes are the home directories in reach: that of the user, and for root those of all users in /etc/passwd.
func Homes() []string {
	var out []string
	if h, err := os.UserHomeDir(); err == nil {
		out = append(out, h)
	}
	if os.Getuid() != 0 {
		return out
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return out
	}
	seen := map[string]bool{"/": true, "/nonexistent": true, "": true}
	for _, h := range out {
		seen[h] = true
	}
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(line, ":"); len(f) > 5 && !seen[f[5]] {
			seen[f[5]] = true
			out = append(out, f[5])
		}
	}
	return out
}

// read reads one file. The error names it.
func read(name string) (File, error) {
	text, uid, err := readRegular(name)
	if err != nil {
		return File{}, fmt.Errorf("read configuration %s: %w", name, err)
	}
	f := File{Path: name, UID: uid}
	doc, err := f.parse(text)
	if err != nil {
		return File{}, fmt.Errorf("parse configuration %s: %w", name, err)
	}
	f.Servers, f.projects = servers(doc, nil), projects(doc)
	return f, nil
}

// parse decodes a document and notes its format.
func (f *File) parse(text []byte) (doc map[string]any, err error) {
	// Some editors write a byte order mark.
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if filepath.Ext(f.Path) == ".toml" {
		f.Format = TOML
		err = toml.Unmarshal(text, &doc)
		return doc, err
	}
	f.Format = JSON
	if json.Unmarshal(text, &doc) == nil {
		return doc, nil
	}
	f.Format, doc = JSONC, nil
	err = json.Unmarshal(withoutComments(text), &doc)
	return doc, err
}

// readRegular reads a regular file and gives its owner. It does not wait for the writer of a FIFO.
func readRegular(name string) (text []byte, uid int, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	uid = os.Getuid()
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		uid = int(sys.Uid)
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile))
	return text, uid, err
}
