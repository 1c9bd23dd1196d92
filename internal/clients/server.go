package clients

import (
	"maps"
	"path/filepath"
	"slices"

	"mcp-tether/internal/argv"
)

// Server is one MCP server that a gateway starts as a process, as the configuration file has it.
type Server struct {
	Name string
	// Keys lead from the top of the document to the entry; Name is the last of them.
	Keys    []string
	Command string
	Args    []string
	Env     map[string]string
	// Partial says that the entry holds arguments or variables that are no text, which are left out here.
	Partial bool
}

// maxNesting bounds the tables within tables in which servers are looked for.
const maxNesting = 8

// servers finds the tables of servers wherever the gateways put them: "mcpServers" (Claude, Gemini, Cursor),
// "mcp_servers" (Codex), "context_servers" (Zed), "servers" (OpenClaw below "mcp", VS Code),
// "amp.mcpServers", "mcp" (opencode). above are the keys that lead to doc.
func servers(doc map[string]any, above []string) []Server {
	var out []Server
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		table, ok := doc[key].(map[string]any)
		if !ok {
			continue
		}
		keys := append(slices.Clone(above), key)
		switch {
		case key == openTable && len(above) < maxNesting:
			out = append(out, serversIn(table, keys)...)
			out = append(out, servers(table, keys)...)
		case key == "mcpServers" || key == "mcp_servers" || key == "context_servers" || key == "servers" || key == "amp.mcpServers":
			out = append(out, serversIn(table, keys)...)
		case len(above) < maxNesting:
			out = append(out, servers(table, keys)...)
		}
	}
	return out
}

// serversIn reads a table of servers. An entry without a command is a server that is reached by network, or no server.
func serversIn(table map[string]any, above []string) []Server {
	var out []Server
	for _, name := range slices.Sorted(maps.Keys(table)) {
		entry, _ := table[name].(map[string]any)
		s := server(entry)
		if s.Command == "" {
			continue
		}
		s.Name, s.Keys = name, append(slices.Clone(above), name)
		out = append(out, s)
	}
	return out
}

// server reads one entry. Command is "" where it starts no process.
func server(entry map[string]any) Server {
	var s Server
	if joined, ok := entry["command"].([]any); ok && entry["args"] == nil { // opencode's
		s.readArgs(joined)
		if len(s.Args) > 0 && !s.Partial {
			s.Command, s.Args = s.Args[0], s.Args[1:]
		}
	} else {
		s.Command, _ = entry["command"].(string)
		s.readArgs(entry["args"])
	}
	s.readEnv(environment(entry))
	return s
}

// environment is what an entry adds to the environment; opencode has another name for it.
func environment(entry map[string]any) any {
	if env, ok := entry["env"]; ok {
		return env
	}
	return entry["environment"]
}

func (s *Server) readArgs(value any) {
	list, ok := value.([]any)
	s.Partial = s.Partial || !ok && value != nil
	for _, a := range list {
		if text, ok := a.(string); ok {
			s.Args = append(s.Args, text)
		} else {
			s.Partial = true
		}
	}
}

func (s *Server) readEnv(value any) {
	table, ok := value.(map[string]any)
	s.Partial = s.Partial || !ok && value != nil
	for name, v := range table {
		if text, ok := v.(string); ok {
			if s.Env == nil {
				s.Env = map[string]string{}
			}
			s.Env[name] = text
		} else {
			s.Partial = true
		}
	}
}

// unwrapped is the command line that runs in the end: the words after "mcp-tether run" and its flags, if the entry
// begins so.
func (s *Server) unwrapped() (command string, args []string) {
	if filepath.Base(s.Command) != "mcp-tether" || len(s.Args) == 0 || s.Args[0] != "run" {
		return s.Command, s.Args
	}
	if n := 1 + argv.CommandAt(s.Args[1:]); n < len(s.Args) {
		return s.Args[n], s.Args[n+1:]
	}
	return s.Command, s.Args
}

// projects are the directories in which Claude Code has worked.
func projects(doc map[string]any) []string {
	table, _ := doc["projects"].(map[string]any)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(dir string) bool { return !filepath.IsAbs(dir) })
}
