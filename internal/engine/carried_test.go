package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const carriedAt = "2026-01-02T03:04:05Z"

// carrying is the claim of a session with a container and a carried volume.
func carrying() Claim {
	c := recorded("a")
	c.Ledger.Add(Note{Op: OpCarry, Kind: Volume, ID: "v", Started: carriedAt})
	return c
}

// volumes gives an engine the volume v, made at the given time. With used, another's container uses it.
func (f *fake) volumes(made string, used bool) (removed *[]string) {
	removed = new([]string)
	gone := false
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/volumes/"):
			return false
		case r.URL.Path != "/volumes/v" || gone:
			http.Error(w, `{"message":"no such volume"}`, http.StatusNotFound)
		case r.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"Name":"v","CreatedAt":%q}`, made)
		case used:
			http.Error(w, `{"message":"volume is in use"}`, http.StatusConflict)
		default:
			gone = true
			*removed = append(*removed, r.URL.Path)
			w.WriteHeader(http.StatusNoContent)
		}
		return true
	})
	return removed
}

// A carried volume goes after its containers. One that another's container uses, or that was made anew, stays.
func TestEndOfCarriedVolumes(t *testing.T) {
	for name, x := range map[string]struct {
		made    string
		used    bool
		claim   func(*Claim)
		removed []string
	}{
		"carried":                    {made: carriedAt, removed: []string{"/volumes/v"}},
		"used by another":            {made: carriedAt, used: true},
		"made anew":                  {made: "2026-01-02T03:04:06Z"},
		"on another user's record":   {made: carriedAt, claim: func(c *Claim) { c.TrustIDs = false }},
		"removed by the session":     {made: carriedAt, claim: func(c *Claim) { c.Ledger.Add(Note{Op: OpRemoved, Kind: Volume, ID: "v"}) }},
		"created by name, and noted": {made: carriedAt, claim: func(c *Claim) { c.Ledger = Ledger{}; c.Ledger.Add(createdNote(Volume, "r", "v")) }},
	} {
		f := newFake(t, map[string]*fakeObject{"a": {labels: labels("s", "")}})
		removed := f.volumes(x.made, x.used)
		c := carrying()
		if x.claim != nil {
			x.claim(&c)
		}
		if _, err := c.End(soon(t), f.Client, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(*removed, x.removed) {
			t.Errorf("%s: removed %v", name, *removed)
		}
	}
}

// A container of the session that is still there may be the one that uses the volume.
func TestCarriedVolumeWaitsForItsContainers(t *testing.T) {
	f := newFake(t, map[string]*fakeObject{})
	f.volumes(carriedAt, false)
	volume := Target{Info: Info{Kind: Volume, ID: "v", CreatedAt: carriedAt}}
	odd := f.odd
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/containers/") {
			http.Error(w, `{"message":"stuck"}`, http.StatusInternalServerError)
			return true
		}
		return odd(w, r)
	})
	results := EndTargets(f.asked(t, enough), f.Client, []Target{{Info: Info{Kind: Container, ID: "a"}}, volume}, 0)
	if results[0].Err == nil || results[1].Done {
		t.Errorf("%+v", results)
	}
}

func TestLedgerOfCarriedVolumes(t *testing.T) {
	carry := Note{Op: OpCarry, Kind: Volume, ID: "v", Started: carriedAt}
	l := ledger(carry, carry)
	clone := l.Clone()
	again := ledger(l.Notes()...)
	for _, x := range []Ledger{l, clone, again} {
		if want := []Carried{{"v", carriedAt}}; !slices.Equal(x.Carried(), want) || x.Empty() {
			t.Errorf("%+v", x)
		}
	}
	l.Add(Note{Op: OpRemoved, Kind: Volume, ID: "v"})
	if !l.Empty() || clone.Empty() {
		t.Errorf("%+v, %+v", l, clone)
	}
}

// A container is removed without its volumes if one of them may be another container's. It may come by --volumes-from,
// or by name if the engine does not tell which volumes were given by name.
func TestSharedVolumes(t *testing.T) {
	for object, want := range map[string]bool{
		`{"Mounts":[{"Type":"volume","Name":"v"}]}`:                                                                                  false,
		`{"HostConfig":{"VolumesFrom":["b"]}}`:                                                                                       true,
		`{"HostConfig":{"VolumesFrom":["b"]},"Config":{"Labels":{"mcp-tether.volumes":"own"}}}`:                                      false,
		`{"HostConfig":{"VolumesFrom":["b"]},"Config":{"Labels":{"mcp-tether.volumes":"others"}}}`:                                   true,
		`{"HostConfig":{"Binds":["v:/d"]},"Mounts":[{"Type":"volume","Name":"v"}],"Config":{"Labels":{"mcp-tether.volumes":"own"}}}`: false,
		// podman, or docker with nothing to lose; and docker with a volume that is the container's own
		`{"HostConfig":{"Binds":["v:/d"]},"Mounts":[{"Type":"volume","Name":"v"}],"Config":{"Labels":{"mcp-tether.volumes":"others"}}}`:                              true,
		`{"HostConfig":{"Binds":["v:/d"]},"Mounts":[{"Type":"volume","Name":"v"},{"Type":"volume","Name":"w"}],"Config":{"Labels":{"mcp-tether.volumes":"others"}}}`: false,
	} {
		c, _ := answering(t, answered("200 OK", object))
		if got, err := c.Inspect(t.Context(), "a"); err != nil || got.SharesVolumes != want {
			t.Errorf("%s: %v, %v", object, got.SharesVolumes, err)
		}
	}
}

// What an engine says of a container tells which of its volumes were made for it alone.
func TestAnonymousVolumes(t *testing.T) {
	const mounts = `"Mounts":[{"Type":"volume","Name":"v"},{"Type":"bind","Name":""}]`
	for object, want := range map[string][]string{
		`{"Id":"a",` + mounts + `}`:                                                       {"v"},
		`{"Id":"a",` + mounts + `,"HostConfig":{"Binds":["v:/data:rw"]}}`:                 nil,
		`{"Id":"a",` + mounts + `,"HostConfig":{"Mounts":[{"Source":"v"}]}}`:              nil,
		`{"Id":"a",` + mounts + `,"HostConfig":{"Mounts":[{"Source":""}]}}`:               {"v"},
		`{"Id":"a",` + mounts + `,"HostConfig":{"VolumesFrom":["b"]}}`:                    nil,
		`{"Id":"a",` + mounts + `,"HostConfig":{"Binds":["w:/data"],"Mounts":[{}]}}`:      {"v"},
		`{"Id":"a","HostConfig":{"Binds":null}}`:                                          nil,
		`{"Id":"a","Mounts":[{"Type":"volume","Name":"v"},{"Type":"volume","Name":"w"}]}`: {"v", "w"},
	} {
		c, _ := answering(t, answered("200 OK", object))
		if got, err := c.Inspect(t.Context(), "a"); err != nil || !slices.Equal(got.Anonymous, want) {
			t.Errorf("%s: %v, %v", object, got.Anonymous, err)
		}
	}
}
