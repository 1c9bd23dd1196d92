package engine

import (
	"slices"
	"testing"
	"time"
)

func TestManifestNames(t *testing.T) {
	const text = "metadata:\n  name: web # x\n  labels: {name: 'a', \"name\" : \"b\"}\nspec:\n- name:c\n  username: d\n  name:\n  - e\n{\"metadata\":{\"name\":\"f.g-1\"}}\nname: "
	// The name d is the value of username, not of name. Such a name does no harm.
	if got, want := ManifestNames(text), []string{"web", "a", "b", "c", "d", "f.g-1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ManifestNames("no such member"); got == nil || len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// While the outcome is unknown, name and time tell what podman made from a manifest.
func TestPlayedManifests(t *testing.T) {
	pod := func(name string, after time.Duration) Info {
		return Info{Kind: Pod, ID: name, Name: name, Created: asked().Add(after)}
	}
	network := Info{Kind: Network, ID: "n", Name: KubeNetwork, Created: asked().Add(time.Millisecond)}
	play := Note{Op: OpCreate, Kind: Pod, Request: "r1", Names: []string{"web", "db"}, At: asked()}
	labelled := pod("web", time.Second)
	labelled.Labels = labels("t", "r9")
	for name, c := range map[string]struct {
		notes []Note
		have  []Info
		mine  string
	}{
		"a pod, a deployment, a network": {[]Note{play}, []Info{pod("web", time.Second), pod("db-pod", 2*time.Second), network}, "n,web,db-pod"},
		"another name":                   {[]Note{play}, []Info{pod("webs", time.Second)}, ""},
		"was there before":               {[]Note{play}, []Info{pod("web", -time.Millisecond)}, ""},
		"made much later":                {[]Note{play}, []Info{pod("web", time.Hour)}, ""},
		"of another session":             {[]Note{play}, []Info{labelled}, ""},
		"outcome known":                  {[]Note{play, {Op: OpRefused, Request: "r1"}}, []Info{pod("web", time.Second), network}, ""},
		"labelled request":               {[]Note{createNote(Pod, "r1")}, []Info{pod("web", time.Second), network}, ""},
	} {
		mine, _ := Claim{Session: "s", Ledger: ledger(c.notes...), TrustIDs: true}.Targets(c.have, images)
		if got := idsOf(mine); got != c.mine {
			t.Errorf("%s: %q, want %q", name, got, c.mine)
		}
		if mine, _ := (Claim{Session: "s", Ledger: ledger(c.notes...)}).Targets(c.have, images); len(mine) > 0 {
			t.Errorf("%s: another user's record is believed", name)
		}
	}
}
