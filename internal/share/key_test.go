package share

import (
	"testing"

	"mcp-tether/internal/proc"
)

// Whatever tells two sessions apart tells their keys apart, and what shells count for themselves does not.
func TestKey(t *testing.T) {
	base := func() identity {
		return identity{
			words: []string{"--share", "--", "server", "a b"}, directory: "/d", device: 1, inode: 2, uid: 3,
			host: proc.Host{Boot: "b", PIDNS: 4}, gateway: proc.ID{PID: 5, Start: 6}, env: []string{"A=1", "B=2"},
		}
	}
	secret := [16]byte{1}
	want := base().key(secret)
	seen := map[string]string{want: "base"}
	for what, change := range map[string]func(*identity){
		"arguments":         func(i *identity) { i.words = []string{"--share", "--", "server", "a", "b"} },
		"flags":             func(i *identity) { i.words = []string{"--share", "--name=x", "--", "server", "a b"} },
		"directory":         func(i *identity) { i.directory = "/e" },
		"device":            func(i *identity) { i.device = 9 },
		"inode":             func(i *identity) { i.inode = 9 },
		"user":              func(i *identity) { i.uid = 9 },
		"boot":              func(i *identity) { i.host.Boot = "c" },
		"pid namespace":     func(i *identity) { i.host.PIDNS = 9 },
		"gateway":           func(i *identity) { i.gateway.PID = 9 },
		"gateway's start":   func(i *identity) { i.gateway.Start = 9 },
		"scope":             func(i *identity) { i.gateway = proc.ID{} },
		"value of variable": func(i *identity) { i.env = []string{"A=1", "B=3"} },
		"one more variable": func(i *identity) { i.env = append(i.env, "C=") },
		"moved boundary":    func(i *identity) { i.env = []string{"A=1B=2"} },
		"argument moved":    func(i *identity) { i.words = []string{"--share", "--", "server", "a b", "/d"}; i.directory = "" },
	} {
		i := base()
		change(&i)
		if k := i.key(secret); seen[k] != "" {
			t.Errorf("%s: the key of %s", what, seen[k])
		} else {
			seen[k] = what
		}
	}
	if k := base().key([16]byte{2}); seen[k] != "" {
		t.Error("another secret gives the same key")
	}
	same := base()
	same.env = []string{"B=2", "PWD=/d", "_=/bin/x", "A=1", "SHLVL=3", "OLDPWD=/"}
	if same.key(secret) != want {
		t.Error("the order of the environment, or what a shell notes, changed the key")
	}
}
