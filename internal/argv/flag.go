package argv

import (
	"slices"
	"time"
)

// Kind says what follows a flag.
type Kind uint8

// The kinds of flags. A List may be repeated.
const (
	Switch Kind = iota // nothing
	Text
	List
	Duration
	Number
)

// Flag is all that is known of a flag of a command. From tables of these come the flag parser's flags, help, completion and pages.
type Flag struct {
	// Name is without dashes. Short is another name, of one letter.
	Name, Short string
	// Env is the variable that counts without the flag.
	Env     string
	Default string
	// Values are all that a text may be; nil for any.
	Values []string
	// Usage has the value's placeholder in back quotes. Group is the heading that help has it below.
	Usage, Group string
	Kind         Kind
	// Front says that the flag asks for a front, and Share that it is about a shared server.
	Front, Share bool
	// Hidden keeps it out of help and pages.
	Hidden bool
}

// find is the flag with a name in a table, nil if there is none.
func find(table []Flag, name string) *Flag {
	i := slices.IndexFunc(table, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &table[i]
}

// asks reports whether a value makes a flag that is off by default do something.
func (f *Flag) asks(value string) bool {
	switch f.Kind {
	case Switch:
		return isTrue(value)
	case Duration:
		d, err := time.ParseDuration(value)
		return err == nil && d > 0
	case List:
		return value != ""
	}
	return value != f.Default && slices.Contains(f.Values, value)
}

// off is the flag with the value that makes it do nothing.
func (f *Flag) off() string {
	switch f.Kind {
	case Switch:
		return "--" + f.Name + "=false"
	case Duration:
		return "--" + f.Name + "=0"
	}
	return "--" + f.Name + "=" + f.Default
}
