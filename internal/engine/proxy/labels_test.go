package proxy

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"mcp-tether/internal/engine"
)

func ours() map[string]string {
	return map[string]string{engine.LabelSession: "s", engine.LabelRequest: "r"}
}

func TestRelabel(t *testing.T) {
	const add = `"mcp-tether.request":"r","mcp-tether.session":"s"`
	for name, c := range map[string]struct{ in, out, request string }{
		"none":          {`{}`, `{"Labels":{` + add + `}}`, "r"},
		"null":          {`{"Labels":null}`, `{"Labels":{` + add + `}}`, "r"},
		"some":          {` {"a" : 1 , "Labels":{"x":"y"},"b":[{}]}` + "\n", ` {"a" : 1 , "Labels":{` + add + `,"x":"y"},"b":[{}]}` + "\n", "r"},
		"odd case":      {`{"LABELS":{"x":"y"}}`, `{"Labels":{` + add + `,"x":"y"}}`, "r"},
		"folded letter": {`{"label\u017f":{"x":"y"}}`, `{"Labels":{` + add + `,"x":"y"}}`, "r"},
		"several":       {`{"labels":{"x":"1","y":"1"},"Labels":{"x":"2"}}`, `{"Labels":{` + add + `,"x":"2","y":"1"}}`, "r"},
		"null after":    {`{"labels":{"x":"1"},"Labels":null}`, `{"Labels":{` + add + `}}`, "r"},
		"deeper":        {`{"HostConfig":{"Labels":{"x":"y"}}}`, `{"HostConfig":{"Labels":{"x":"y"}},"Labels":{` + add + `}}`, "r"},
		"big number":    {`{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10,"Labels":{` + add + `}}`, "r"},
		"half of a session's": {
			`{"Labels":{"mcp-tether.session":"x"}}`, `{"Labels":{` + add + `}}`, "r",
		},
		"another session's": {
			`{"Labels":{"mcp-tether.session":"in","mcp-tether.request":"q"}}`,
			`{"Labels":{"mcp-tether.request":"q","mcp-tether.session":"in"}}`, "q",
		},
	} {
		out, request, err := relabel([]byte(c.in), "Labels", ours())
		if err != nil || string(out) != c.out || request != c.request {
			t.Errorf("%s: %s, %s, %v", name, out, request, err)
		}
	}
	borrowing := ours()
	borrowing[engine.LabelVolumes] = engine.BorrowedVolumes
	const inner = `{"Labels":{"mcp-tether.request":"q","mcp-tether.session":"in","mcp-tether.volumes":""}}`
	if out, _, err := relabel([]byte(inner), "Labels", borrowing); err != nil || string(out) != strings.Replace(inner, `:""`, `:"borrowed"`, 1) {
		t.Errorf("another session's, with volumes of others: %s, %v", out, err)
	}
	if out, _, err := relabel([]byte(`{"Labels":{"x":"y"}}`), "labels", ours()); err != nil || string(out) != `{"labels":{`+add+`,"x":"y"}}` {
		t.Errorf("podman's: %s, %v", out, err)
	}
}

func TestWhatCannotBeLabelled(t *testing.T) {
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "1", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{,}`,
		`{} x`, `{}{}`, `{"Labels":{}}]`, "{}\x00", "\xef\xbb\xbf{}",
		`{"Labels":[]}`, `{"Labels":"x"}`, `{"labels":{"x":1}}`, `{"labels":{"x":{}}}`, `{"Labels":{},"labels":1}`,
	} {
		if out, _, err := relabel([]byte(in), "Labels", ours()); err == nil {
			t.Errorf("%q: %s", in, out)
		}
	}
}

func TestWhoIsAttached(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`: false, `{"AttachStdin":false,"OpenStdin":true}`: false, `{"AttachStdin":true}`: true, `{"AttachStdout":true}`: true,
		`{"attachstderr":true}`: true, `{"stdin":true}`: true, `{"terminal":true}`: true, `{"stdin":null}`: false,
	} {
		if got, err := isAttached([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{``, `{"AttachStdin":1}`, `{"AttachStdin":true} x`} {
		if _, err := isAttached([]byte(in)); err == nil {
			t.Errorf("%q can be judged", in)
		}
	}
}

// FuzzLabels compares a rewritten body with the original as encoding/json decodes both, which is what the engine does: our
// labels are added, and nothing else differs.
func FuzzLabels(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"Labels":{"a":"b"},"Image":"x","n":1e99}`, `{"labels":{"a":"b"},"LABELS":{"c":"d"},"Labels":null}`,
		`{"Labels":{"mcp-tether.session":"x","mcp-tether.request":"y"}}`, `{"\u004cabels":{"\ud800":"` + "\xff" + `"}}`, `{"a":{"Labels":{}},"a":2}`,
		`{"Labels":{"a":null}}`, `{"label` + "\u017f" + `":{"a":"b"}} `,
	} {
		f.Add([]byte(seed))
	}
	type config struct{ Labels map[string]string }
	f.Fuzz(func(t *testing.T, in []byte) {
		out, request, err := relabel(in, "Labels", ours())
		var before, after config
		decodes := json.Unmarshal(in, &before)
		if err != nil {
			if decodes == nil && strings.HasPrefix(strings.TrimLeftFunc(string(in), unicode.IsSpace), "{") {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if decodes != nil {
			t.Fatalf("%q became %q, but the engine says %v", in, out, decodes)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		want := before.Labels
		if want[engine.LabelSession] == "" || want[engine.LabelRequest] == "" {
			want = maps.Clone(ours())
			maps.Copy(want, before.Labels)
			maps.Copy(want, ours())
		}
		if !maps.Equal(after.Labels, want) || request != want[engine.LabelRequest] {
			t.Errorf("%q became %q: labels %v instead of %v, request %q", in, out, after.Labels, want, request)
		}
		if a, b := others(t, in), others(t, out); !reflect.DeepEqual(a, b) {
			t.Errorf("%q became %q: %v, %v", in, out, a, b)
		}
	})
}

// others returns all members except the labels, by name, with their values as written.
func others(t *testing.T, object []byte) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &all); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(k string, _ json.RawMessage) bool { return strings.EqualFold(k, "labels") })
	return all
}
