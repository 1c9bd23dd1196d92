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
	// Name is what the user calls it, and Title what its makers call it. alias is another name.
	Name, Title, alias string
	// files are its configuration files, relative to a home directory, where anyCode stands for each of codeDirs.
	files []string
	// variable names the environment variable that gives the first file's directory, or the file itself.
	variable string
	// programs are the names under which it runs, where Name is none of them.
	programs string
	// byHand is what its user writes into a file that is not rewritten.
	byHand string
	// KeepsIdle says that it keeps the servers of closed threads, as its users report.
	KeepsIdle bool
}

// anyCode is the directory of a user of VS Code. codeDirs are those of its editions, on the desktop and on a machine that a
// window reaches.
const anyCode = "CODE/"

var codeDirs = [...]string{
	".config/Code/User/", ".config/Code - Insiders/User/", ".vscode-server/data/User/", ".vscode-server-insiders/data/User/",
	"Library/Application Support/Code/User/",
}

// knownClients are the clients whose files are looked for.
var knownClients = [...]Client{
	{Name: "codex", Title: "Codex", files: []string{".codex/config.toml"}, variable: "CODEX_HOME", KeepsIdle: true},
	{Name: "claude", alias: "claude-code", Title: "Claude Code", files: []string{".claude.json"}, variable: "CLAUDE_CONFIG_DIR"},
	{Name: "claude-desktop", Title: "Claude Desktop", files: []string{
		".config/Claude/claude_desktop_config.json",
		"Library/Application Support/Claude/claude_desktop_config.json",
	}},
	{Name: "openclaw", Title: "OpenClaw", files: []string{".openclaw/openclaw.json"}, variable: "OPENCLAW_CONFIG_PATH", KeepsIdle: true},
	{Name: "gemini", alias: "gemini-cli", Title: "Gemini CLI", files: []string{".gemini/settings.json"}},
	{Name: "cursor", Title: "Cursor", files: []string{".cursor/mcp.json"}},
	{Name: "vscode", alias: "code", Title: "VS Code", files: []string{anyCode + "mcp.json"}, programs: "code code-insiders"},
	{Name: "zed", Title: "Zed", files: []string{".config/zed/settings.json"}, programs: "zed zed-editor"},
	{Name: "windsurf", Title: "Windsurf", files: []string{".codeium/windsurf/mcp_config.json"}},
	{Name: "cline", Title: "Cline", programs: "cline code code-insiders", files: []string{
		".cline/data/settings/cline_mcp_settings.json", ".cline/mcp.json", anyCode + "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
	}},
	{Name: "roo", alias: "roo-code", Title: "Roo Code", programs: "code code-insiders", files: []string{
		anyCode + "globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
	}},
	{Name: "lm-studio", alias: "lmstudio", Title: "LM Studio", files: []string{".lmstudio/mcp.json", ".cache/lm-studio/mcp.json"}},
	{Name: "kiro", Title: "Kiro", files: []string{".kiro/settings/mcp.json"}, programs: "kiro kiro-cli"},
	{Name: "copilot", alias: "copilot-cli", Title: "Copilot CLI", files: []string{".copilot/mcp-config.json"}, variable: "COPILOT_HOME"},
	{Name: "junie", Title: "Junie", files: []string{".junie/mcp/mcp.json"}, programs: "junie idea pycharm webstorm goland"},
	{Name: "qwen", alias: "qwen-code", Title: "Qwen Code", files: []string{".qwen/settings.json"}},
	{Name: "amp", Title: "Amp", files: []string{".config/amp/settings.json", ".config/amp/settings.jsonc"}},
	{Name: "opencode", Title: "opencode", files: []string{".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"}, variable: "OPENCODE_CONFIG"},
	{Name: "jetbrains", Title: "Copilot in JetBrains IDEs", files: []string{".config/github-copilot/intellij/mcp.json"}, programs: "idea pycharm webstorm goland"},
	{Name: "jetbrains-ai", Title: "AI Assistant of JetBrains IDEs", files: []string{".config/JetBrains"},
		byHand: "Settings | Tools | AI Assistant | Model Context Protocol: Command: mcp-tether, Arguments: run --name NAME -- COMMAND ARG"},
	{Name: "goose", Title: "Goose", files: []string{".config/goose/config.yaml"}, byHand: "cmd: mcp-tether, args: [run, --name, NAME, --, COMMAND, ARG]"},
	{Name: "continue", Title: "Continue", files: []string{".continue/config.yaml"}, programs: "cn code code-insiders",
		byHand: "command: mcp-tether, args: [run, --name, NAME, --, COMMAND, ARG]"},
}

// projectFiles are the files in which clients look for the servers of the project in the current directory.
var projectFiles = [...]string{
	projectFile, ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json", ".kiro/settings/mcp.json", ".junie/mcp/mcp.json", ".amp/settings.json",
	".gemini/settings.json", ".qwen/settings.json", ".codex/config.toml", ".zed/settings.json", "opencode.json", "opencode.jsonc",
}

// below are the client's files below a home directory.
func (c *Client) below(home string) []string {
	var all []string
	for _, f := range c.files {
		rest, found := strings.CutPrefix(f, anyCode)
		if !found {
			all = append(all, home+"/"+f)
			continue
		}
		for _, dir := range codeDirs {
			all = append(all, home+"/"+dir+rest)
		}
	}
	return all
}

// homeFiles are the files of all known clients below a home directory, but for those that cannot be read.
func homeFiles(home string) []string {
	var all []string
	for i := range knownClients {
		if c := &knownClients[i]; c.byHand == "" {
			all = append(all, c.below(home)...)
		}
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
					return knownClients[i].at(path, file)
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
func Names() []string {
	var all []string
	for i := range knownClients {
		all = append(all, knownClients[i].Name)
	}
	return all
}

// ByHand is what a user writes into a file that is not rewritten.
func (c Client) ByHand() string {
	if c.byHand == "" {
		return "mcp-tether run -- before the command"
	}
	return c.byHand
}

// IsName reports whether a known client has this name.
func IsName(name string) bool {
	_, err := byName(name)
	return err == nil
}

func byName(name string) (Client, error) {
	for i := range knownClients {
		if c := &knownClients[i]; name != "" && (c.Name == name || c.alias == name) {
			return *c, nil
		}
	}
	return Client{}, fmt.Errorf("%w: %s, nor a file of that name; known are %s", errNoClient, name, strings.Join(Names(), ", "))
}

func (c *Client) here(home string) []Place {
	var found []Place
	for _, file := range c.candidates(home) {
		if _, err := os.Lstat(file); err == nil {
			found = append(found, c.at(file, file))
		}
	}
	return found
}

// at is the place of a file of the client, which has the format of another name of it.
func (c *Client) at(path, file string) Place {
	if c.byHand != "" {
		return Place{path, *c, foreign}
	}
	return Place{path, *c, formatOf(file)}
}

// candidates are the names that the client's files may have.
func (c *Client) candidates(home string) []string {
	at := os.Getenv(c.variable)
	if at == "" || c.variable == "" {
		return c.below(home)
	}
	if st, err := os.Stat(at); err == nil && st.IsDir() {
		at = filepath.Join(at, filepath.Base(c.files[0]))
	}
	return []string{at}
}
