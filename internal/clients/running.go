package clients

import (
	"os"
	"path"
	"slices"
	"strings"

	"mcp-tether/internal/proc"
)

// Running gives a process of the calling user that runs the client; 0 if none is seen. It judges by names, and so may be
// mistaken: fit for a hint.
func (c Client) Running() (pid int) {
	names := strings.Fields(c.programs)
	if len(names) == 0 {
		names = []string{c.Name}
	}
	r := proc.Reader{Apart: true}
	all, _ := r.All()
	for _, p := range all {
		if uid, err := proc.UID(p.PID); err != nil || uid != os.Getuid() || p.Dead() {
			continue
		}
		if args, err := r.Args(p); err == nil && len(args) > 0 && slices.Contains(names, ProgramOf(untitled(args))) {
			return p.PID
		}
	}
	return 0
}

// ProgramOf is the name of the program in a command line that is not empty. An interpreter may run it.
func ProgramOf(args []string) string {
	name := path.Base(args[0])
	if isInterpreter(name) {
		name = path.Base(firstWord(args[1:]))
	}
	return strings.ToLower(strings.TrimSuffix(name, path.Ext(name)))
}
