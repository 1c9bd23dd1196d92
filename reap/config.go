package reap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
)

// Where the known gateways keep the command lines of their MCP servers, relative to a home directory.
var configFiles = [...]string{
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

// maxConfig bounds a configuration file, in bytes. Claude Code's grows with use.
const maxConfig = 64 << 20

// DefaultConfigs reads the known gateways' files of the given homes, and the .mcp.json of the projects they name.
// Missing files are passed over; others that cannot be read are told to warn.
func DefaultConfigs(homes []string, warn func(error)) []Server {
	var out []Server
	for _, home := range homes {
		for _, name := range configFiles {
			file := filepath.Join(home, name)
			servers, projects, err := readConfig(file)
			out = append(out, servers...)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				warn(err)
			}
			for _, p := range projects {
				if servers, _, err := readConfig(filepath.Join(p, ".mcp.json")); err == nil {
					out = append(out, servers...)
				}
			}
		}
	}
	return out
}

// ReadConfig reads one file that the user named; it speaks for everybody's processes.
func ReadConfig(file string) ([]Server, error) {
	servers, _, err := readConfig(file)
	for i := range servers {
		servers[i].AnyUser = true
	}
	return servers, err
}

func readConfig(file string) ([]Server, []string, error) {
	b, uid, err := readBounded(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration %s: %w", file, err)
	}
	// Some editors write a byte order mark.
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	var doc map[string]any
	if filepath.Ext(file) == ".toml" {
		err = toml.Unmarshal(b, &doc)
	} else if err = json.Unmarshal(b, &doc); err != nil {
		doc = nil
		err = json.Unmarshal(withoutComments(b), &doc)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("parse configuration %s: %w", file, err)
	}
	var out []Server
	collect(doc, file, 0, &out)
	for i := range out {
		out[i].UID = uid
	}
	return out, projects(doc), nil
}

// readBounded reads a regular file and tells its owner. It does not wait for the writer of a FIFO.
func readBounded(file string) ([]byte, int, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	uid := os.Getuid()
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		uid = int(sys.Uid)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return b, uid, err
}

// projects are the directories that Claude Code has worked in.
func projects(doc map[string]any) []string {
	m, _ := doc["projects"].(map[string]any)
	var out []string
	for dir := range m {
		if filepath.IsAbs(dir) {
			out = append(out, dir)
		}
	}
	sort.Strings(out)
	return out
}

// maxNesting bounds the walk through a configuration.
const maxNesting = 8

// collect finds server tables wherever the gateways put them: "mcpServers" (Claude, Gemini, Cursor), "mcp_servers"
// (Codex), "servers" (OpenClaw below "mcp", VS Code).
func collect(doc map[string]any, file string, depth int, out *[]Server) {
	if depth > maxNesting {
		return
	}
	keys := make([]string, 0, len(doc))
	for k := range doc {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		m, ok := doc[k].(map[string]any)
		if !ok {
			continue
		}
		if k == "mcpServers" || k == "mcp_servers" || k == "servers" {
			serversIn(m, file, out)
			continue
		}
		collect(m, file, depth+1, out)
	}
}

func serversIn(table map[string]any, file string, out *[]Server) {
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, name := range names {
		entry, _ := table[name].(map[string]any)
		command, _ := entry["command"].(string)
		if command == "" {
			continue
		}
		s := Server{Name: name, Command: command, From: file}
		list, _ := entry["args"].([]any)
		for _, a := range list {
			if text, ok := a.(string); ok {
				s.Args = append(s.Args, text)
			}
		}
		*out = append(*out, unwrap(s))
	}
}

// unwrap takes our own prefix off a configured command.
func unwrap(s Server) Server {
	if filepath.Base(s.Command) != "mcp-tether" {
		return s
	}
	if len(s.Args) == 0 || s.Args[0] != "run" {
		return s
	}
	if n := 1 + supervisedAt(s.Args[1:]); n < len(s.Args) {
		s.Command, s.Args = s.Args[n], s.Args[n+1:]
	}
	return s
}

// supervisedAt is where the command begins among the words after "run": after "--", or at the first that is neither a
// flag nor the value of one.
func supervisedAt(args []string) int {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return i + 1
		case !strings.HasPrefix(a, "-"):
			return i
		case !strings.Contains(a, "=") && strings.TrimLeft(a, "-") != "no-anchor":
			i++
		}
	}
	return len(args)
}

// withoutComments blanks // and /* */ comments and trailing commas outside of strings, as VS Code's JSON has them.
func withoutComments(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			end := stringEnd(b, i)
			out = append(out, b[i:end]...)
			i = end - 1
		case b[i] == '/' && i+1 < len(b) && b[i+1] == '/':
			for i < len(b) && b[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case b[i] == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += 2 + end + 1
		case (b[i] == '}' || b[i] == ']'):
			out = append(trimComma(out), b[i])
		default:
			out = append(out, b[i])
		}
	}
	return out
}

func stringEnd(b []byte, start int) int {
	for i := start + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func trimComma(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
		case ',':
			return b[:i]
		default:
			return b
		}
	}
	return b
}
