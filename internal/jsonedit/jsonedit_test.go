package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func exact(a, b string) bool { return a == b }

func TestSet(t *testing.T) {
	for name, c := range map[string]struct{ in, path, out string }{
		"empty object":           {`{}`, "a", `{"a":0}`},
		"empty object, spaced":   {" {\n}\n", "a", " {\"a\":0\n}\n"},
		"replaced":               {`{"a" : [1, {"b": "}"}] , "b":1e99}`, "a", `{"a" : 0 , "b":1e99}`},
		"replaced at the end":    {`{"b":"\"","a":"x\\"}`, "a", `{"b":"\"","a":0}`},
		"spelled otherwise":      {`{"\u0061":1}`, "a", `{"\u0061":0}`},
		"added":                  {`{"b":1}`, "a", `{"b":1,"a":0}`},
		"added, spaced":          {"{\n  \"b\": 1,\n  \"c\": {}\n}\n", "a", "{\n  \"b\": 1,\n  \"c\": {},\n  \"a\": 0\n}\n"},
		"several":                {`{"a":1, "b":2, "a":3, "a":4, "c":5}`, "a", `{"b":2, "a":0, "c":5}`},
		"several and no other":   {`{"a":1,"a":2}`, "a", `{"a":0}`},
		"deeper":                 {`{"a":{"b":1,"c":2}}`, "a b", `{"a":{"b":0,"c":2}}`},
		"deeper, of several":     {`{"a":{"b":1},"a":{"c":2}}`, "a b", `{"a":{"c":2,"b":0}}`},
		"deeper, not there":      {`{"x":1}`, "a b c", `{"x":1,"a":{"b":{"c":0}}}`},
		"a name to be escaped":   {`{}`, `"`, `{"\"":0}`},
		"another case":           {`{"A":1}`, "a", `{"A":1,"a":0}`},
		"a member with no name":  {`{"":1}`, "a", `{"":1,"a":0}`},
		"literals are passed by": {`{"x":true,"y":null,"z":-1.5E+3}`, "a", `{"x":true,"y":null,"z":-1.5E+3,"a":0}`},
	} {
		before := strings.Clone(c.in)
		out, err := Set([]byte(c.in), []byte("0"), exact, strings.Fields(c.path)...)
		if err != nil || string(out) != c.out || c.in != before {
			t.Errorf("%s: %s, %v, want %s", name, out, err, c.out)
		}
		values, err := Values(out, exact, strings.Fields(c.path)...)
		if err != nil || len(values) != 1 || string(values[0]) != "0" {
			t.Errorf("%s: read back %q, %v", name, values, err)
		}
	}
}

func TestNamesThatTheCallerCallsEqual(t *testing.T) {
	text := []byte(`{"LABELS":{"x":1},"b":2,"label\u017f":3}`)
	values, err := Values(text, strings.EqualFold, "Labels")
	if want := [][]byte{[]byte(`{"x":1}`), []byte("3")}; err != nil || !slices.EqualFunc(values, want, bytes.Equal) {
		t.Errorf("%q, %v", values, err)
	}
	out, err := Set(text, []byte("0"), strings.EqualFold, "Labels")
	if err != nil || string(out) != `{"b":2,"Labels":0}` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestWhatIsNoObject(t *testing.T) {
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "1", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{,}`,
		`{} x`, `{}{}`, `{"a":{}}]`, "{}\x00", "\xef\xbb\xbf{}", strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000),
	} {
		if out, err := Set([]byte(in), []byte("0"), exact, "a"); err == nil {
			t.Errorf("%.80q: %s", in, out)
		}
		if values, err := Values([]byte(in), exact, "a"); err == nil {
			t.Errorf("%.80q: %s", in, values)
		}
	}
	for _, in := range []string{`[]`, `{"a":1}`, `{"a":null}`} {
		if _, err := Set([]byte(in), []byte("0"), exact, "a", "b"); !errors.Is(err, ErrNotObject) {
			t.Errorf("%s: %v", in, err)
		}
		if _, err := Values([]byte(in), exact, "a", "b"); !errors.Is(err, ErrNotObject) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// FuzzSet compares what Set makes of an object with encoding/json: it finds the value, and all other members as they were,
// byte for byte.
func FuzzSet(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : 1 , "b" : [ "]" , { } ] } `, `{"a":{"b":1},"a":{"b":2,"c":"\\\""}}`, `{"\u0061":"\ud800","` + "\xff" + `":-0.10e+5}`,
		`{"b":true,"a":null}`, "{\n\t\"c\": {\"b\": {}}\n}",
	} {
		f.Add([]byte(seed), "a", "b")
	}
	f.Fuzz(func(t *testing.T, in []byte, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		for _, path := range [][]string{{a}, {a, b}} {
			out, err := Set(in, []byte(`"new"`), exact, path...)
			want, ok := model(in, path)
			if (err == nil) != ok {
				t.Fatalf("%q: %v", in, err)
			}
			if got, _ := model(out, path); ok && !reflect.DeepEqual(got, want) {
				t.Errorf("%q became %q", in, out)
			}
		}
	})
}

// model decodes an object to what it is to be after Set: all members as they are written, and those on the path decoded.
func model(text []byte, path []string) (map[string]any, bool) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(text, &raw) != nil || raw == nil {
		return nil, false
	}
	all := map[string]any{}
	for name, value := range raw {
		all[name] = string(value)
	}
	all[path[0]] = `"new"`
	if len(path) > 1 {
		inner := raw[path[0]]
		if inner == nil {
			inner = []byte("{}")
		}
		var ok bool
		if all[path[0]], ok = model(inner, path[1:]); !ok {
			return nil, false
		}
	}
	return all, true
}
