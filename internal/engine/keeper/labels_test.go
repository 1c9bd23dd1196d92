package keeper

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"mcp-tether/internal/engine"
)

// relabel adds our labels, as a proxy does.
func relabel(in string, to route) (string, *refusal) {
	p := proxy{Labels: ours, Warn: func(error) {}}
	out, refused := p.label([]byte(in), to)
	return string(out), refused
}

func TestLabels(t *testing.T) {
	const add = `"mcp-tether.session":"s"`
	for name, c := range map[string]struct{ in, out string }{
		"none":          {`{}`, `{"Labels":{` + add + `}}`},
		"null":          {`{"Labels":null}`, `{"Labels":{` + add + `}}`},
		"some":          {` {"a" : 1 , "Labels":{"x":"y"},"b":[{}]}` + "\n", `{"Labels":{` + add + `,"x":"y"},"a":1,"b":[{}]}`},
		"odd case":      {`{"LABELS":{"x":"y"}}`, `{"Labels":{` + add + `,"x":"y"}}`},
		"folded letter": {`{"label\u017f":{"x":"y"}}`, `{"Labels":{` + add + `,"x":"y"}}`},
		"several":       {`{"labels":{"x":"1"},"Labels":{"y":"2"}}`, `{"Labels":{` + add + `,"x":"1","y":"2"}}`},
		"deeper":        {`{"HostConfig":{"Labels":{"x":"y"}}}`, `{"HostConfig":{"Labels":{"x":"y"}},"Labels":{` + add + `}}`},
		"big number":    {`{"n":12345678901234567890.10}`, `{"Labels":{` + add + `},"n":12345678901234567890.10}`},
		// As of a container from which others are made: what is made here is this session's.
		"another session's": {`{"Labels":{"mcp-tether.session":"in"}}`, `{"Labels":{` + add + `}}`},
	} {
		if out, refused := relabel(c.in, route{}); refused != nil || out != c.out {
			t.Errorf("%s: %s, %v", name, out, refused)
		}
	}
	if out, _ := relabel(`{"Labels":{"x":"y"}}`, route{libpod: true}); out != `{"labels":{`+add+`,"x":"y"}}` {
		t.Errorf("podman's: %s", out)
	}
}

func TestWhatCannotBeLabelled(t *testing.T) {
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "1", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{,}`,
		`{} x`, `{}{}`, `{"Labels":{}}]`, "{}\x00", "\xef\xbb\xbf{}",
		`{"Labels":[]}`, `{"Labels":"x"}`, `{"labels":{"x":1}}`, `{"labels":{"x":{}}}`, `{"Labels":{},"labels":1}`,
	} {
		if out, refused := relabel(in, route{}); refused == nil {
			t.Errorf("%q: %s", in, out)
		}
	}
}

// FuzzLabels compares a rewritten body with the original as encoding/json decodes both, which is what the engine does: our
// labels are there, others are only what was there, and nothing else differs.
func FuzzLabels(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"Labels":{"a":"b"},"Image":"x","n":1e99}`, `{"labels":{"a":"b"},"LABELS":{"c":"d"},"Labels":null}`,
		`{"Labels":{"mcp-tether.session":"x"}}`, `{"\u004cabels":{"\ud800":"` + "\xff" + `"}}`, `{"a":{"Labels":{}},"a":2}`,
		`{"Labels":{"a":null}}`, `{"label` + "\u017f" + `":{"a":"b"}} `,
	} {
		f.Add([]byte(seed))
	}
	type config struct{ Labels map[string]string }
	f.Fuzz(func(t *testing.T, in []byte) {
		out, refused := relabel(string(in), route{})
		var before, after config
		decodes := json.Unmarshal(in, &before)
		if refused != nil {
			if decodes == nil && strings.HasPrefix(strings.TrimLeftFunc(string(in), unicode.IsSpace), "{") {
				t.Fatalf("%q: %v", in, refused.err)
			}
			return
		}
		if err := json.Unmarshal([]byte(out), &after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		if after.Labels[engine.LabelSession] != "s" {
			t.Errorf("%q became %q", in, out)
		}
		if !reflect.DeepEqual(rest(t, string(in)), rest(t, out)) {
			t.Errorf("%q became %q", in, out)
		}
	})
}

// rest is an object without its labels.
func rest(t *testing.T, object string) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(object), &all); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(key string, _ any) bool { return strings.EqualFold(key, "labels") })
	return all
}
