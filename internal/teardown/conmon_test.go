package teardown

import (
	"maps"
	"slices"
	"testing"

	"mcp-tether/internal/proc"
)

// What cleans up after a container is told from what runs in it, and from a podman that is its client.
func TestCleaners(t *testing.T) {
	of := func(pid, parent int, name string) proc.Stat {
		return proc.Stat{ID: proc.ID{PID: pid}, PPID: parent, Comm: name}
	}
	members := []proc.Stat{
		of(10, 1, "podman"), of(11, 10, "helper"), // the client
		of(20, 1, "conmon"), of(21, 20, "server"), of(22, 21, "podman"), // the container
		of(30, 20, "podman"), of(31, 30, "crun"), of(32, 20, "conmon"), of(33, 31, "umount"), // the end of it
		of(40, 1, "sh"), of(41, 42, "loop"), of(42, 41, "loop"),
	}
	if got := slices.Sorted(maps.Keys(cleaners(members))); !slices.Equal(got, []int{20, 30, 31, 32, 33}) {
		t.Errorf("got %v", got)
	}
}
