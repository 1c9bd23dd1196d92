package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// ErrListed says that an organisation's list keeps a server from being wrapped.
//
// An organisation may say which servers its users start. Claude Code compares the whole command line, word by word
// (code.claude.com/docs/en/managed-mcp), and Codex the command (github.com/openai/codex/issues/9101). mcp-tether in front of a
// command changes it: what was allowed would be off, and what was denied would start. Rules about names alone are none of this.
var ErrListed = errors.New("an organisation's list")

// The places of the lists, below a root directory.
const (
	claudeList  = "/etc/claude-code/managed-settings.json"
	claudeLists = "/etc/claude-code/managed-settings.d/*.json"
	codexList   = "/etc/codex/requirements.toml"
)

// listed says which list compares the commands of a place, or cannot be read; nil if none does. A project's file is read by the client
// that looks for such files.
func listed(root string, p Place) error {
	var files []string
	if p.Client.Name == claude || filepath.Base(p.Path) == projectFile {
		files, _ = filepath.Glob(root + claudeLists)
		files = append(files, root+claudeList)
	}
	if p.Client.Name == codex || p.Client.Name == "" && filepath.Base(filepath.Dir(p.Path)) == ".codex" {
		files = append(files, root+codexList)
	}
	for _, file := range files {
		text, _, err := readFile(file, true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		compares := false
		if err == nil {
			compares, err = comparesCommands(text, formatOf(file))
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w, %s, cannot be read: %w", ErrListed, file, err)
		case compares:
			return fmt.Errorf("%w, %s, compares commands: have it name the wrapped one, and wrap by hand", ErrListed, file)
		}
	}
	return nil
}

// comparesCommands reports whether a list has a rule about a command.
func comparesCommands(text []byte, format Format) (found bool, err error) {
	if format == TOML {
		doc, err := parse(text, format)
		servers, _ := doc["mcp_servers"].(map[string]any)
		for _, v := range servers {
			table, _ := v.(map[string]any)
			identity, _ := table["identity"].(map[string]any)
			found = found || identity["command"] != nil
		}
		return found, err
	}
	type rule struct {
		Command []string `json:"serverCommand"`
	}
	var said struct {
		Denied  []rule `json:"deniedMcpServers"`
		Allowed []rule `json:"allowedMcpServers"`
	}
	err = json.Unmarshal(text, &said)
	for _, r := range append(said.Denied, said.Allowed...) {
		found = found || r.Command != nil
	}
	return found, err
}
