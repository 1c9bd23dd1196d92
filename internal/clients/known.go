package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Client is a gateway as its user knows it.
type Client struct {
	// Name is what the user calls it, and Title what its makers call it. alias is another name.
	Name, Title, alias string
	// files are patterns of its configuration files, relative to a home directory, where anyCode stands for each of codeDirs.
	files []string
	// bundled are patterns of files that come with what the client has installed, and are written anew at each update.
	bundled []string
	// variable names the environment variable that gives the directory of the files, or the only file itself.
	variable string
}

// anyCode is the directory of a user of VS Code. codeDirs are those of its editions: on the desktop, from flatpak, and on a machine
// that a window reaches.
const anyCode = "CODE/"

var codeDirs = [...]string{
	".config/Code/User/", ".config/Code - Insiders/User/", ".config/VSCodium/User/",
	".var/app/com.visualstudio.code/config/Code/User/", ".var/app/com.vscodium.codium/config/VSCodium/User/",
	".vscode-server/data/User/", ".vscode-server-insiders/data/User/", ".vscodium-server/data/User/",
}

// knownClients are the clients whose files are looked for.
var knownClients = [...]Client{
	{Name: codex, Title: "Codex", files: []string{".codex/config.toml", ".codex/*.config.toml"}, variable: "CODEX_HOME"},
	{Name: claude, alias: "claude-code", Title: "Claude Code", files: []string{".claude.json"}, variable: "CLAUDE_CONFIG_DIR",
		bundled: []string{".claude/plugins/cache/*/*/*/" + projectFile, ".claude/plugins/cache/*/*/*/.claude-plugin/plugin.json"}},
	{Name: "claude-desktop", Title: "Claude Desktop", files: []string{".config/Claude/claude_desktop_config.json"}},
	{Name: "openclaw", Title: "OpenClaw", files: []string{".openclaw/openclaw.json"}, variable: "OPENCLAW_CONFIG_PATH"},
	{Name: "gemini", alias: "gemini-cli", Title: "Gemini CLI", files: []string{".gemini/settings.json"}, bundled: []string{".gemini/extensions/*/gemini-extension.json"}},
	{Name: "cursor", Title: "Cursor", files: []string{".cursor/mcp.json"}},
	{Name: "vscode", alias: "code", Title: "VS Code", files: []string{anyCode + "mcp.json", anyCode + "profiles/*/mcp.json"}},
	{Name: "zed", Title: "Zed", files: []string{".config/zed/settings.json"}},
	{Name: "windsurf", Title: "Windsurf", files: []string{".codeium/windsurf/mcp_config.json"}},
	{Name: "cline", Title: "Cline", files: []string{
		".cline/data/settings/cline_mcp_settings.json", ".cline/mcp.json", anyCode + "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
	}},
	{Name: "roo", alias: "roo-code", Title: "Roo Code", files: []string{anyCode + "globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"}},
	{Name: "lm-studio", alias: "lmstudio", Title: "LM Studio", files: []string{".lmstudio/mcp.json", ".cache/lm-studio/mcp.json"}},
	{Name: "kiro", Title: "Kiro", files: []string{".kiro/settings/mcp.json"}},
	{Name: "copilot", alias: "copilot-cli", Title: "Copilot CLI", files: []string{".copilot/mcp-config.json"}, variable: "COPILOT_HOME"},
	{Name: "junie", Title: "Junie", files: []string{".junie/mcp/mcp.json"}},
	{Name: "qwen", alias: "qwen-code", Title: "Qwen Code", files: []string{".qwen/settings.json"}},
	{Name: "amp", Title: "Amp", files: []string{".config/amp/settings.json", ".config/amp/settings.jsonc"}},
	{Name: "opencode", Title: "opencode", files: []string{".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"}, variable: "OPENCODE_CONFIG"},
	{Name: "vibe", alias: "mistral-vibe", Title: "Mistral Vibe", files: []string{".vibe/config.toml"}, variable: "VIBE_HOME"},
	{Name: "jetbrains", Title: "Copilot in JetBrains IDEs", files: []string{".config/github-copilot/intellij/mcp.json"}},
}

// The clients that have lists of an organisation.
const (
	codex  = "codex"
	claude = "claude"
)

// projectFiles are the files in which clients look for the servers of the project in the current directory.
var projectFiles = [...]string{
	projectFile, ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".kiro/settings/mcp.json", ".junie/mcp/mcp.json", ".amp/settings.json",
	".gemini/settings.json", ".qwen/settings.json", ".codex/config.toml", ".zed/settings.json", ".vibe/config.toml", "opencode.json", "opencode.jsonc",
}

// Place is a configuration file that is there. Client is empty for a file that the user named and no known client has.
type Place struct {
	Path   string
	Client Client
	Format Format
	// Bundled says that updates of something that the client has installed write the file anew.
	Bundled bool
}

// patterns are where the client's files may be below a home directory, or where its variable says.
func (c *Client) patterns(home string) (all []string) {
	at := ""
	if c.variable != "" {
		at = os.Getenv(c.variable)
	}
	if st, err := os.Stat(at); at != "" && (err != nil || !st.IsDir()) {
		return []string{at}
	}
	for _, f := range c.files {
		rest, code := strings.CutPrefix(f, anyCode)
		switch {
		case at != "":
			all = append(all, filepath.Join(at, filepath.Base(f)))
		case code:
			for _, dir := range codeDirs {
				all = append(all, filepath.Join(home, dir, rest))
			}
		default:
			all = append(all, filepath.Join(home, f))
		}
	}
	return all
}

// places are the client's files that are there.
func (c *Client) places(home string) []Place {
	all := c.found(c.patterns(home), false)
	for _, f := range c.bundled {
		dir := home
		if at := os.Getenv(c.variable); c.variable != "" && at != "" {
			_, f, _ = strings.Cut(f, "/")
			dir = at
		}
		all = append(all, c.found([]string{filepath.Join(dir, f)}, true)...)
	}
	return all
}

func (c *Client) found(patterns []string, bundled bool) (all []Place) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			names = []string{pattern} // a name with a bracket in it
		}
		for _, name := range names {
			if _, err := os.Lstat(name); err == nil {
				all = append(all, Place{Path: name, Client: *c, Format: formatOf(name), Bundled: bundled})
			}
		}
	}
	return all
}

// PlaceOf is the place of a file that the user named. A file of a known client is that client's by each of its names: it may
// be kept elsewhere, with a link in the home directory.
func PlaceOf(home, path string) Place {
	if st, err := os.Stat(path); err == nil && home != "" {
		for _, p := range Places(home) {
			if other, err := os.Stat(p.Path); err == nil && os.SameFile(st, other) {
				p.Path = path
				return p
			}
		}
	}
	return Place{Path: path, Format: formatOf(path)}
}

// Places are the configuration files of all known clients below a home directory.
func Places(home string) (all []Place) {
	for i := range knownClients {
		all = append(all, knownClients[i].places(home)...)
	}
	return all
}

// ErrNoConfiguration says that a client has no configuration file.
var ErrNoConfiguration = errors.New("no configuration")

// PlacesOf finds the configuration files of the clients with these names, or of all known ones, below a home directory. For
// each name without a file, ErrNoConfiguration says where it was looked for; the files of the other names are returned
// all the same.
func PlacesOf(home string, names []string) ([]Place, error) {
	if len(names) == 0 {
		return Places(home), nil
	}
	var found []Place
	var missing []error
	for _, name := range names {
		c := byName(name)
		if c == nil {
			return nil, fmt.Errorf("no such client: %s, nor a file of that name; known are %s", name, strings.Join(Names(), ", "))
		}
		places := c.places(home)
		if len(places) == 0 {
			missing = append(missing, fmt.Errorf("%s: %w at %s: add a server with the client first, or name a FILE",
				name, ErrNoConfiguration, strings.Join(c.patterns(home), ", ")))
		}
		found = append(found, places...)
	}
	return found, errors.Join(missing...)
}

// InProject finds the files of the project in the current directory. In a home directory these are the clients' own.
func InProject(home string) (found []string) {
	for _, file := range projectFiles {
		if _, err := os.Lstat(file); err == nil && PlaceOf(home, file).Client.Name == "" {
			found = append(found, file)
		}
	}
	return found
}

// Names are the names of the known clients.
func Names() (all []string) {
	for i := range knownClients {
		all = append(all, knownClients[i].Name)
	}
	return all
}

// IsName reports whether a known client has this name.
func IsName(name string) bool { return byName(name) != nil }

func byName(name string) *Client {
	i := slices.IndexFunc(knownClients[:], func(c Client) bool { return name != "" && (c.Name == name || c.alias == name) })
	if i < 0 {
		return nil
	}
	return &knownClients[i]
}
