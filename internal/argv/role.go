package argv

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
)

// The hidden first arguments, with which one process of ours starts another. A word may follow that tells it more, and then
// the command line that it continues.
const (
	// roleSupervise is the supervisor, and roleRemove removes a session's containers for a recovering anchor. Their word is
	// a Handover.
	roleSupervise = "__supervise"
	roleRemove    = "__remove"
	// roleHost is the process that a shared server belongs to. roleLauncher starts the host, so that the host is no child of a
	// client's process. Their word is a Host.
	roleHost     = "__host"
	roleLauncher = "__launch"
	// roleSweep ends the user's dead sessions beside a session. Nothing follows.
	roleSweep = "__sweep"
	// roleDelegated becomes a user, to work in the place of root. Its word is the user's number; a command and its flags follow.
	roleDelegated = "__as"
)

// inRole is a command line in a role.
func inRole(program, role string, rest ...string) []string {
	return append([]string{program, role}, rest...)
}

// hasRole reports whether a command line is in one of the roles. Every process can choose its command line.
func hasRole(args []string, roles ...string) bool {
	return len(args) > 1 && slices.Contains(roles, args[1])
}

// errRole says that a user has typed a role.
var errRole = errors.New("this is for mcp-tether itself: use 'mcp-tether run'")

// splitRole undoes inRole for a role whose word has so many fields, which read takes.
func splitRole(args []string, fields int, read func(*word)) (own []string, err error) {
	var w word
	if len(args) > 3 {
		w.left = strings.SplitN(args[2], separator, fields)
	}
	if len(w.left) != fields {
		return nil, fmt.Errorf("%s: %w", args[1], errRole)
	}
	if read(&w); w.err != nil {
		return nil, fmt.Errorf("%s %.80q: %w: %w", args[1], args[2], errRole, w.err)
	}
	return append([]string{args[0]}, args[3:]...), nil
}

// separator separates the fields of a word. Only the last one may contain it.
const separator = ","

// joined makes a word.
func joined(fields ...any) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = fmt.Sprint(f)
	}
	return strings.Join(out, separator)
}

// word is read field by field, each once. err is the first error.
type word struct {
	left []string
	err  error
}

func (w *word) text() (field string) {
	field, w.left = w.left[0], w.left[1:]
	return field
}

func (w *word) number() int    { return parsed(w, strconv.Atoi) }
func (w *word) ticks() uint64  { return parsed(w, parseTicks) }
func (w *word) yes() bool      { return parsed(w, strconv.ParseBool) }
func (w *word) ids() []proc.ID { return parsed(w, parseIDs) }

func parsed[T any](w *word, parse func(string) (T, error)) (v T) {
	v, err := parse(w.text())
	if w.err == nil {
		w.err = err
	}
	return v
}

func parseTicks(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

func parseIDs(s string) (list []proc.ID, err error) {
	for f := range strings.FieldsSeq(s) {
		id, err := proc.ParseID(f)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}
