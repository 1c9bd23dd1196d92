package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Client is a gateway as its user knows it.
type Client struct {
	// Name is what the user calls it, and Title what its makers call it.
	Name, Title string
	// files are its configuration files, relative to a home directory.
	files []string
	// variable names the environment variable that gives the first file's directory, or the file itself.
	variable string
	// KeepsIdle says that it keeps the servers of closed threads, as its users report.
	KeepsIdle bool
}

// knownClients are the clients whose files are looked for.
var knownClients = [...]Client{
	{Name: "codex", Title: "Codex", files: []string{".codex/config.toml"}, variable: "CODEX_HOME", KeepsIdle: true},
	{Name: "claude", Title: "Claude Code", files: []string{".claude.json"}, variable: "CLAUDE_CONFIG_DIR"},
	{Name: "claude-desktop", Title: "Claude Desktop", files: []string{
		".config/Claude/claude_desktop_config.json",
		"Library/Application Support/Claude/claude_desktop_config.json",
	}},
	{Name: "openclaw", Title: "OpenClaw", files: []string{".openclaw/openclaw.json"}, variable: "OPENCLAW_CONFIG_PATH", KeepsIdle: true},
	{Name: "gemini", Title: "Gemini CLI", files: []string{".gemini/settings.json"}},
	{Name: "cursor", Title: "Cursor", files: []string{".cursor/mcp.json"}},
	{Name: "vscode", Title: "VS Code", files: []string{".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"}},
	{Name: "zed", Title: "Zed", files: []string{".config/zed/settings.json"}},
}

// homeFiles are the files of all known clients, relative to a home directory.
func homeFiles() []string {
	var all []string
	for i := range knownClients {
		all = append(all, knownClients[i].files...)
	}
	return all
}

// Place is a configuration file that is there. Client is empty for a file that the user named and no known client has. Then
// Format is empty, too.
type Place struct {
	Path   string
	Client Client
	Format Format
}

// PlaceOf is the place of a file that the user named. A file of a known client is that client's by each of its names: it may
// be kept elsewhere, with a link in the home directory.
func PlaceOf(home, path string) Place {
	if st, err := os.Stat(path); err == nil && home != "" {
		for i := range knownClients {
			for _, file := range knownClients[i].candidates(home) {
				if other, err := os.Stat(file); err == nil && os.SameFile(st, other) {
					return Place{path, knownClients[i], formatOf(file)}
				}
			}
		}
	}
	return Place{Path: path}
}

// errNoClient says that no known client has this name.
var errNoClient = errors.New("no such client")

// ErrNoConfiguration says that a client has no configuration file.
var ErrNoConfiguration = errors.New("no configuration")

// Here finds the configuration files of the clients with these names, or of all known ones, below a home directory. For
// each name without a file, ErrNoConfiguration says where it was looked for; the files of the other names are returned
// all the same.
func Here(home string, names []string) ([]Place, error) {
	var found []Place
	var missing []error
	for _, name := range names {
		c, err := byName(name)
		if err != nil {
			return nil, err
		}
		places := c.here(home)
		if len(places) == 0 {
			missing = append(missing, fmt.Errorf("%s: %w at %s: add a server with the client first, or name a FILE",
				name, ErrNoConfiguration, strings.Join(c.candidates(home), ", ")))
		}
		found = append(found, places...)
	}
	if len(names) == 0 {
		for i := range knownClients {
			found = append(found, knownClients[i].here(home)...)
		}
	}
	return found, errors.Join(missing...)
}

// Names are the names of the known clients.
func Names() []string {
	var all []string
	for i := range knownClients {
		all = append(all, knownClients[i].Name)
	}
	return all
}

func byName(name string) (Client, error) {
	for i := range knownClients {
		if knownClients[i].Name == name {
			return knownClients[i], nil
		}
	}
	return Client{}, fmt.Errorf("%w: %s; known are %s; a file is named with a slash, as in ./%[2]s", errNoClient, name, strings.Join(Names(), ", "))
}

func (c Client) here(home string) []Place {
	var found []Place
	for _, file := range c.candidates(home) {
		if _, err := os.Lstat(file); err == nil {
			found = append(found, Place{file, c, formatOf(file)})
		}
	}
	return found
}

// candidates are the names that the client's files may have.
func (c Client) candidates(home string) []string {
	at := os.Getenv(c.variable)
	if at == "" || c.variable == "" {
		var all []string
		for _, f := range c.files {
			all = append(all, filepath.Join(home, f))
		}
		return all
	}
	if st, err := os.Stat(at); err == nil && st.IsDir() {
		at = filepath.Join(at, filepath.Base(c.files[0]))
	}
	return []string{at}
}
