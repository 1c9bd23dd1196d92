package clients

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-tether/internal/proc"
)

func TestParseJSON5(t *testing.T) {
	text := "\ufeff// head\n{ unquoted: 'and \\'quoted\\'', /* c */ \"b\": [1, -0.5, 1e400, ], $x_1: { }, 'qA\\u00e9': \"two\\tlines\\ud83d\\ude00\", }\n"
	n, err := parseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range n.members {
		names = append(names, m.name)
		if again, err := parseJSON([]byte(text[m.value.start:m.value.end])); err != nil || again.kind != m.value.kind || again.text != m.value.text {
			t.Errorf("%s: its place holds %q, %v", m.name, text[m.value.start:m.value.end], err)
		}
	}
	if want := []string{"unquoted", "b", "$x_1", "qAé"}; !reflect.DeepEqual(names, want) {
		t.Errorf("members %q, want %q", names, want)
	}
	if got := n.members[0].value.text; got != "and 'quoted'" {
		t.Errorf("%q", got)
	}
	if got := n.members[3].value.text; got != "two\tlines😀" {
		t.Errorf("%q", got)
	}
	if items := n.members[1].value.items; len(items) != 3 || items[2].text != "1e400" {
		t.Errorf("%+v", items)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		"", "{", "[1", `{"a"}`, `{"a":}`, `{"a":1 "b":2}`, `{,}`, "[,]", "[1,,2]", `"a`, "'a\n'", `"\u12"`, `"\`, "/* {}", "{} x", "nul", "1-2", "{a:b}", "[\x00]", "0x1F", "+1", "Infinity", "NaN", `"\x41"`, "\"\\\n\"", "\u00a01",
	} {
		if n, err := parseJSON([]byte(in)); !errors.Is(err, errSyntax) {
			t.Errorf("%q: %+v, %v", in, n, err)
		}
	}
	for _, in := range []string{strings.Repeat("[", 100_000), "[" + strings.Repeat("1,", proc.MaxValues) + "]"} {
		if _, err := parseJSON([]byte(in)); !errors.Is(err, errTooMuch) {
			t.Errorf("%.20q...: %v", in, err)
		}
	}
	if _, err := parseJSON([]byte("{\n\"a\": 1,\n?")); err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
		t.Errorf("%v", err)
	}
}

// FuzzParse compares how JSON is read with encoding/json. What is no JSON crashes nothing.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\u00e9\ud800",null,true]}`, ` [ ] `, `{'a':1,}`, "// c\n1", `"\ud83d\ude00\ud83dx"`, `{"a":{"a":-0}}`, "\"a\r\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		n, err := parseJSON(in)
		var want any
		if json.Unmarshal(in, &want) != nil || !utf8.Valid(in) {
			return
		}
		if errors.Is(err, errTooMuch) {
			return
		}
		if got := n.asAny(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, %v, want %#v", in, got, err, want)
		}
	})
}
