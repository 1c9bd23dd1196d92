package proc

import "bytes"

// HasEnv reports whether the environment that the process was started with holds the assignment "NAME=value". A process
// may have overwritten it since; then, and when it cannot be read, the answer is false.
func (r *Reader) HasEnv(pid int, assignment string) bool {
	b, err := r.readEntry(path(pid, "environ"), nil)
	if err != nil {
		return false
	}
	want := []byte(assignment)
	for len(b) > 0 {
		var entry []byte
		entry, b, _ = bytes.Cut(b, []byte{0})
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}

// Args reads the command line of a process; nil when it has none (kernel threads, zombies) or it cannot be read.
func (r *Reader) Args(pid int) []string {
	b, err := r.readEntry(path(pid, "cmdline"), nil)
	if err != nil || len(b) == 0 {
		return nil
	}
	b = bytes.TrimSuffix(b, []byte{0})
	out := make([]string, 0, 8)
	for _, a := range bytes.Split(b, []byte{0}) {
		out = append(out, string(a))
	}
	return out
}
