package clients

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func every(string) bool { return true }

// wrapCases are texts before and after wrapping with "--hibernate 10m". Unwrapping gives the first one back, byte for byte.
var wrapCases = map[string]struct {
	format  Format
	in, out string
}{
	"compact": {
		JSON, `{"mcpServers":{"x":{"command":"npx","args":["-y","x"],"env":{"A":"b"}}}}`,
		`{"mcpServers":{"x":{"command":"mcp-tether","args":["run", "--name", "x", "--hibernate", "10m", "--", "npx", "-y","x"],"env":{"A":"b"}}}}`,
	},
	"indented": {
		JSON, "{\n  \"mcpServers\": {\n    \"x\": {\n      \"args\": [\n        \"-y\",\n        \"x\"\n      ],\n      \"command\": \"npx\"\n    }\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"x\": {\n      \"args\": [\n        \"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"--\", \"npx\",\n        \"-y\",\n        \"x\"\n      ],\n      \"command\": \"mcp-tether\"\n    }\n  }\n}\n",
	},
	"no list": {
		JSON, "{\n  \"servers\": {\n    \"x\": {\n      \"type\": \"stdio\",\n      \"command\" : \"srv\"\n    }\n  }\n}\n",
		"{\n  \"servers\": {\n    \"x\": {\n      \"type\": \"stdio\",\n      \"args\" : [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"srv\"],\n      \"command\" : \"mcp-tether\"\n    }\n  }\n}\n",
	},
	"no list, compact": {
		JSON, `{"mcp":{"servers":{"x":{"command":"srv"}}}}`,
		`{"mcp":{"servers":{"x":{"args":["run", "--name", "x", "--hibernate", "10m", "srv"], "command":"mcp-tether"}}}}`,
	},
	"empty list": {
		JSON, `{"mcpServers":{"x":{"args":[ ],"command":"srv"}}}`,
		`{"mcpServers":{"x":{"args":["run", "--name", "x", "--hibernate", "10m", "--", "srv" ],"command":"mcp-tether"}}}`,
	},
	"a project of Claude Code, and a server by network": {
		JSON, `{"projects":{"/a/b":{"mcpServers":{"x":{"command":"\u0061\/b","args":["1"]}}}},"mcpServers":{"web":{"type":"http","url":"http://x"}}}`,
		`{"projects":{"/a/b":{"mcpServers":{"x":{"command":"mcp-tether","args":["run", "--name", "x", "--hibernate", "10m", "--", "\u0061\/b", "1"]}}}},"mcpServers":{"web":{"type":"http","url":"http://x"}}}`,
	},
	"JSON5": {
		JSON, "// mine\n{\n\tmcp: { servers: {\n\t\t'x': { command: 'npx', args: [ // how\n\t\t\t'-y', /* what */ 'x', ], },\n\t} },\n}\n",
		"// mine\n{\n\tmcp: { servers: {\n\t\t'x': { command: \"mcp-tether\", args: [ // how\n\t\t\t\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"--\", 'npx',\n\t\t\t'-y', /* what */ 'x', ], },\n\t} },\n}\n",
	},
	"JSON5 without a list": {
		JSON, "{context_servers:{x:{command:'srv'}}}",
		"{context_servers:{x:{args:[\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", 'srv'], command:\"mcp-tether\"}}}",
	},
	"TOML": {
		TOML, "# head\nmodel = \"m\"\n\n[mcp_servers.x]\ncommand = 'npx' # runs\nargs = [\"-y\", 'x'] # so\n\n[mcp_servers.x.env]\nA = \"b\"\n",
		"# head\nmodel = \"m\"\n\n[mcp_servers.x]\ncommand = \"mcp-tether\" # runs\nargs = [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"--\", 'npx', \"-y\", 'x'] # so\n\n[mcp_servers.x.env]\nA = \"b\"\n",
	},
	"TOML, several lines and a quoted name": {
		TOML, "[mcp_servers.\"a.b\"]\nargs = [ # ]\n  \"-y\", # one\n  \"x\", # ] two\n] # end\ncommand = \"npx\"\n",
		"[mcp_servers.\"a.b\"]\nargs = [ # ]\n  \"run\", \"--name\", \"a.b\", \"--hibernate\", \"10m\", \"--\", \"npx\",\n  \"-y\", # one\n  \"x\", # ] two\n] # end\ncommand = \"mcp-tether\"\n",
	},
	"TOML without a list": {
		TOML, "[mcp_servers.x]\r\n  startup = 3\r\n  command = \"srv\" # runs\r\n",
		"[mcp_servers.x]\r\n  startup = 3\r\n  args = [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"srv\"]\r\n  command = \"mcp-tether\" # runs\r\n",
	},
	"TOML, inline and dotted": {
		TOML, "mcp_servers = { x = { command = \"srv\" }, y = { command = \"npx\", args = [\"y\"] } }\n",
		"mcp_servers = { x = { args = [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"srv\"], command = \"mcp-tether\" }, y = { command = \"mcp-tether\", args = [\"run\", \"--name\", \"y\", \"--hibernate\", \"10m\", \"--\", \"npx\", \"y\"] } }\n",
	},
	"TOML, dotted": {
		TOML, "mcp_servers.x.command = \"srv\"\nmcp_servers.y.command = \"npx\"\nmcp_servers.y.args = [\"y\"]\n",
		"mcp_servers.x.args = [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"srv\"]\nmcp_servers.x.command = \"mcp-tether\"\nmcp_servers.y.command = \"mcp-tether\"\nmcp_servers.y.args = [\"run\", \"--name\", \"y\", \"--hibernate\", \"10m\", \"--\", \"npx\", \"y\"]\n",
	},
	"a list of words": {
		JSON, `{"mcp":{"x":{"type":"local","command":["npx","-y","x"],"environment":{"A":"b"}},"y":{"type":"remote","url":"http://x"}}}`,
		`{"mcp":{"x":{"type":"local","command":["mcp-tether", "run", "--name", "x", "--hibernate", "10m", "--", "npx","-y","x"],"environment":{"A":"b"}},"y":{"type":"remote","url":"http://x"}}}`,
	},
	"a list of words, below servers": {
		JSON, "{\"mcp\":{\"servers\":{\"x\":{\"command\":[ // it\n  \"/srv\", // runs\n]}}}}",
		"{\"mcp\":{\"servers\":{\"x\":{\"command\":[ // it\n  \"mcp-tether\", \"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"--\", \"/srv\", // runs\n]}}}}",
	},
	"a name with a dot": {
		JSON, `{"amp.mcpServers":{"x":{"command":"npx","args":["x"]}}}`,
		`{"amp.mcpServers":{"x":{"command":"mcp-tether","args":["run", "--name", "x", "--hibernate", "10m", "--", "npx", "x"]}}}`,
	},
	"TOML, a list of tables": {
		TOML, "[[mcp_servers]]\nname = \"a\"\ncommand = \"x\"\n\n[[mcp_servers]]\nname = \"b\"\ntransport = \"http\"\nurl = \"http://b\"\n\n[[mcp_servers]]\ncommand = \"y\"\nname = \"c\"\nargs = [\"z\"]\n[mcp_servers.env]\ncommand = \"e\"\n",
		"[[mcp_servers]]\nname = \"a\"\nargs = [\"run\", \"--name\", \"a\", \"--hibernate\", \"10m\", \"x\"]\ncommand = \"mcp-tether\"\n\n[[mcp_servers]]\nname = \"b\"\ntransport = \"http\"\nurl = \"http://b\"\n\n[[mcp_servers]]\ncommand = \"mcp-tether\"\nname = \"c\"\nargs = [\"run\", \"--name\", \"c\", \"--hibernate\", \"10m\", \"--\", \"y\", \"z\"]\n[mcp_servers.env]\ncommand = \"e\"\n",
	},
	"servers by the names of members": {
		JSON, `{"mcp":{"servers":{"url":{"command":"npx","args":["u"]},"command":{"command":"npx","args":["c"]}}}}`,
		`{"mcp":{"servers":{"url":{"command":"mcp-tether","args":["run", "--name", "url", "--hibernate", "10m", "--", "npx", "u"]},"command":{"command":"mcp-tether","args":["run", "--name", "command", "--hibernate", "10m", "--", "npx", "c"]}}}}`,
	},
	"byte order mark": {
		TOML, "\ufeff[mcp_servers.x]\ncommand = \"npx\"\nargs = []\n",
		"\ufeff[mcp_servers.x]\ncommand = \"mcp-tether\"\nargs = [\"run\", \"--name\", \"x\", \"--hibernate\", \"10m\", \"--\", \"npx\"]\n",
	},
}

func TestWrap(t *testing.T) {
	w := Options{Flags: []string{"--hibernate", "10m"}}
	for name, c := range wrapCases {
		t.Run(name, func(t *testing.T) {
			r, err := rewrite([]byte(c.in), c.format, w, every)
			if err != nil || string(r.Text) != c.out {
				t.Fatalf("%v, %+v\n%s\nwant\n%s", err, r.Changes, r.Text, c.out)
			}
			for _, ch := range r.Changes {
				if !slices.Equal(ch.New[len(ch.New)-len(ch.Old):], ch.Old) || ch.New[0] != Program || ch.New[1] != "run" {
					t.Errorf("it is shown as %q and %q", ch.Old, ch.New)
				}
			}
			for _, again := range []Options{w, {}} {
				if r, err := rewrite([]byte(c.out), c.format, again, every); err != nil || string(r.Text) != c.out || r.Changes[0].Edited {
					t.Errorf("once more: %v, %+v\n%s", err, r.Changes, r.Text)
				}
			}
			unwrapped(t, r.Text, c.format, c.in)
			// Other flags, another path, and none.
			for _, other := range []Options{{Flags: []string{"--name", "é \"q\""}, Path: "/opt/mcp-tether"}, {Flags: []string{}}} {
				r, err := rewrite([]byte(c.out), c.format, other, every)
				if err != nil || string(r.Text) == c.out {
					t.Errorf("%+v: %v\n%s", other, err, r.Text)
				}
				unwrapped(t, r.Text, c.format, c.in)
			}
		})
	}
}

// A name that the user has written stays, and no other is added to it.
func TestWrapNames(t *testing.T) {
	for in, want := range map[string]string{
		`{"mcpServers":{"k":{"command":"x","args":[]}}}`:                                                `["run", "--name", "k", "--", "x"]`,
		`{"mcpServers":{"":{"command":"x","args":[]}}}`:                                                 `["run", "--", "x"]`,
		`{"mcpServers":{"-k":{"command":"x","args":[]}}}`:                                               `["run", "--name", "-k", "--", "x"]`,
		`{"mcpServers":{"k":{"command":"x","args":[],"env":{"MCP_TETHER_NAME":"mine"}}}}`:               `["run", "--", "x"]`,
		`{"mcpServers":{"k":{"command":"x","args":["--name","mine"]}}}`:                                 `["run", "--name", "k", "--", "x", "--name","mine"]`,
		`{"mcpServers":{"k":{"command":"mcp-tether","args":["run","--name=mine","--","x"]}}}`:           `["run","--name=mine","--","x"]`,
		`{"mcpServers":{"k":{"command":"mcp-tether","args":["run","--hibernate","1h","--","--name"]}}}`: `["run","--hibernate","1h","--","--name"]`,
	} {
		r, err := rewrite([]byte(in), JSON, Options{}, every)
		if err != nil || !strings.Contains(string(r.Text), want) {
			t.Errorf("%v\n%s\nwant %s", err, r.Text, want)
		}
		if r.Changes[0].Edited {
			unwrapped(t, r.Text, JSON, in)
		}
	}
}

// A server with a PATH of its own is started by the program's path.
func TestWrapWithAnotherPATH(t *testing.T) {
	for in, want := range map[string]string{
		`{"mcpServers":{"x":{"command":"npx","args":["x"],"env":{"PATH":"/a:/b"}}}}`: `"command":"/opt/mcp-tether"`,
		`{"mcpServers":{"x":{"command":"npx","args":["x"],"env":{"A":"/a:/b"}}}}`:    `"command":"mcp-tether"`,
		"[mcp_servers.x]\ncommand='npx'\n[mcp_servers.x.env]\nPATH='/a:/b'\n":        `command="/opt/mcp-tether"`,
	} {
		format := JSON
		if in[0] == '[' {
			format = TOML
		}
		r, err := rewrite([]byte(in), format, Options{Absolute: "/opt/mcp-tether"}, every)
		if err != nil || !strings.Contains(string(r.Text), want) {
			t.Fatalf("%v, %+v\n%s", err, r.Changes, r.Text)
		}
		unwrapped(t, r.Text, format, in)
	}
}

func unwrapped(t *testing.T, text []byte, format Format, want string) {
	t.Helper()
	r, err := rewrite(text, format, Options{Unwrap: true}, every)
	if err != nil || string(r.Text) != want {
		t.Errorf("unwrapped: %v, %+v\n%s\nwant\n%s", err, r.Changes, r.Text, want)
	}
}

// What a user has written may have a comma after the last word, which an empty list must not have.
func TestUnwrapLastComma(t *testing.T) {
	for _, c := range []struct {
		format   Format
		in, want string
	}{
		{JSON, `{"servers":{"x":{"command":"mcp-tether","args":["run","--","srv",]}}}`, `{"servers":{"x":{"command":"srv","args":[]}}}`},
		{JSON, `{"servers":{"x":{"command":"mcp-tether","args":["run","--","srv" , ],}}}`, `{"servers":{"x":{"command":"srv","args":[ ],}}}`},
		{TOML, "[mcp_servers.x]\ncommand = \"mcp-tether\"\nargs = [\n  \"run\",\n  \"--\",\n  \"srv\", # it\n]\n",
			"[mcp_servers.x]\ncommand = \"srv\"\nargs = [\n   # it\n]\n"},
		{TOML, "[mcp_servers.x]\nargs = [\"run\", \"srv\",]\ncommand = \"mcp-tether\"\n", "[mcp_servers.x]\ncommand = \"srv\"\n"},
		{JSON, `{"servers":{"x":{"command":"mcp-tether","args":["run","--","srv","1",]}}}`, `{"servers":{"x":{"command":"srv","args":["1",]}}}`},
	} {
		unwrapped(t, []byte(c.in), c.format, c.want)
	}
}

// Comments among our own words would be lost: the entry stays as it is.
func TestCommentsAmongOurWords(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		o      Options
	}{
		{JSON, `{"servers":{"x":{"command":"mcp-tether","args":["run","--","srv" /* it, */,]}}}`, Options{Unwrap: true}},
		{JSON, `{"servers":{"x":{"args":["run", /* it */ "srv"],"command":"mcp-tether"}}}`, Options{Unwrap: true}},
		{JSON, `{"servers":{"x":{"args":["run","--", "srv", /* it */ "a"],"command":"mcp-tether"}}}`, Options{Unwrap: true}},
		{JSON, `{"mcp":{"x":{"command":["mcp-tether", /* it */ "run", "--", "srv"]}}}`, Options{Unwrap: true}},
		{TOML, "[mcp_servers.x]\ncommand = \"mcp-tether\"\nargs = [\"run\", # it\n  \"--hibernate\", \"10m\", \"--\", \"npx\"]\n", Options{Flags: []string{"--lazy"}}},
	} {
		p, err := rewrite([]byte(c.text), c.format, c.o, every)
		if err != nil || string(p.Text) != c.text || !errors.Is(p.Changes[0].Err, errComments) {
			t.Errorf("%v, %+v\n%s", err, p.Changes, p.Text)
		}
	}
}

func TestWrapLeavesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		text   string
		err    error
	}{
		"numbers among the words":    {JSON, `{"mcpServers":{"x":{"command":"npx","args":["-p",80]}}}`, errForm},
		"a command that is a table":  {JSON, `{"context_servers":{"x":{"command":{"path":"npx"}}}}`, errForm},
		"comments in an empty list":  {JSON, `{"mcpServers":{"x":{"command":"npx","args":[ /* none */ ]}}}`, errForm},
		"a name with escapes":        {JSON, `{"mcpServers":{"x":{"c\u006fmmand":"npx"},"y":{"url":"http://a"}}}`, errForm},
		"TOML, a name with escapes":  {TOML, "[mcp_servers.x]\n\"c\\u006fmmand\" = \"npx\"\n", errForm},
		"a whole line":               {JSON, `{"mcpServers":{"x":{"command":"npx -y x"}}}`, errForClient},
		"a path from home":           {JSON, `{"mcpServers":{"x":{"command":"~/x","args":["a"]}}}`, errForClient},
		"two commands":               {JSON, `{"mcpServers":{"x":{"command":"a","command":"b"}}}`, errDouble},
		"two servers of a name":      {JSON, `{"mcpServers":{"x":{"command":"a"},"x":{"command":"b"}}}`, errDouble},
		"two, one by network":        {JSON, `{"mcpServers":{"x":{"command":"a"}},"mcpServers":{"x":{"url":"http://b"}}}`, errDouble},
		"by way of npx":              {JSON, `{"mcpServers":{"x":{"command":"npx","args":["-y","mcp-tether","run","--","a"]}}}`, errIndirect},
		"by way of npx, a version":   {JSON, `{"mcpServers":{"x":{"command":"npx","args":["-y","mcp-tether@0.1","run","--name","x","a"]}}}`, errIndirect},
		"by way of npm exec":         {JSON, `{"mcpServers":{"x":{"command":"npm","args":["exec","mcp-tether","--","run","--","a"]}}}`, errIndirect},
		"by way of a shell":          {JSON, `{"mcpServers":{"x":{"command":"sh","args":["-lc","cd /x && exec '/opt/mcp-tether' run -- a"]}}}`, errIndirect},
		"another of our commands":    {JSON, `{"mcpServers":{"x":{"command":"mcp-tether","args":["ps"]}}}`, errNoCommand},
		"run is missing":             {JSON, `{"mcpServers":{"x":{"command":"mcp-tether","args":["npx","-y","x"]}}}`, errNoCommand},
		"no words":                   {JSON, `{"mcpServers":{"x":{"command":"mcp-tether"}}}`, errNoCommand},
		"a command is missing":       {JSON, `{"mcpServers":{"x":{"command":"mcp-tether","args":["run","--name","x"]}}}`, errNoCommand},
		"run is missing after npx":   {JSON, `{"mcpServers":{"x":{"command":"npx","args":["-y","mcp-tether","npx","x"]}}}`, errIndirect},
		"a directory of our name":    {JSON, `{"mcpServers":{"x":{"command":"npx","args":["x","/src/mcp-tether"]}}}`, errIndirect},
		"by network":                 {JSON, `{"mcpServers":{"x":{"url":"http://a"}}}`, nil},
		"servers of something else":  {JSON, `{"lsp":{"servers":{"x":{"command":"a"}}}}`, nil},
		"not an object":              {JSON, `{"mcpServers":{"x":"npx"}}`, nil},
		"TOML, numbers":              {TOML, "[mcp_servers.x]\ncommand = \"a\"\nargs = [1]\n", errForm},
		"TOML, by network":           {TOML, "[mcp_servers.x]\nurl = \"http://a\"\n", nil},
		"TOML, in a list in a table": {TOML, "[[a.mcp_servers]]\ncommand = \"a\"\n", nil},
		"TOML, a text of many lines": {TOML, "note = '''\n[mcp_servers.x]\ncommand = \"a\"\n'''\n", nil},
	} {
		r, err := rewrite([]byte(c.text), c.format, Options{}, every)
		if err != nil || string(r.Text) != c.text || len(r.Changes) > 0 != (c.err != nil) || c.err != nil && !errors.Is(r.Changes[0].Err, c.err) {
			t.Errorf("%s: %v, %+v\n%s", name, err, r.Changes, r.Text)
		}
	}
	text := `{"mcpServers":{"x":{"command":"a"},"y":{"command":"b"},"z":{"httpUrl":"c"}}}`
	r, err := rewrite([]byte(text), JSON, Options{}, func(name string) bool { return name == "y" })
	if err != nil || !strings.Contains(string(r.Text), `"x":{"command":"a"}`) || r.Changes[0].Edited || !r.Changes[1].Edited || !slices.Equal(r.Remote, []string{"z"}) {
		t.Errorf("one of two: %v, %+v", err, r)
	}
}

// A name that two readers may read differently is not guessed at.
func TestRewriteRefusesOtherThanUTF8(t *testing.T) {
	in := []byte("{\"projects\":{\"\xff\":{\"mcpServers\":{\"a\":{\"command\":\"server\"}}}}}")
	if r, err := rewrite(in, JSON, Options{}, every); !errors.Is(err, errNotUTF8) || r.Text != nil {
		t.Errorf("%q, %v", r.Text, err)
	}
	in = bytes.ReplaceAll(in, []byte("\xff"), []byte("\u00ff"))
	if r, err := rewrite(in, JSON, Options{}, every); err != nil || bytes.Equal(r.Text, in) {
		t.Errorf("the same in UTF-8: %q, %v", r.Text, err)
	}
}

// A text that clients refuse is not changed, and so no server in it is said to be.
func TestRewriteRefusesWhatClientsRefuse(t *testing.T) {
	in := []byte("[mcp_servers.x]\ncommand = \"a\"\n[mcp_servers.x]\nargs = []\n")
	if r, err := rewrite(in, TOML, Options{}, every); err == nil || r.Text != nil || len(r.Changes) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzWrap compares what an edited text means with go-toml or encoding/json, and its round trip through unwrap with the text
// before. Rewrite asks these decoders, and says errNotMeant.
func FuzzWrap(f *testing.F) {
	for _, c := range wrapCases {
		f.Add([]byte(c.in), c.format == TOML)
		f.Add([]byte(c.out), c.format == TOML)
	}
	f.Add([]byte("{\"projects\":{\"\xff\":{\"mcpServers\":{\"\":{\"command\":\"0\"}}}}}"), false)
	f.Add([]byte("{servers:{x:{command:'mcp-tether',args:['run', // a\n '--name', /* b */ '//', '--', 'srv' /* , */ , ]}}}"), false)
	f.Add([]byte("[mcp_servers.x]\ncommand = 'mcp-tether'\nargs = [ 'run', '--', 'srv' # ,\n , ]\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, asTOML bool) {
		format := JSON
		if asTOML {
			format = TOML
		}
		for _, w := range []Options{{Unwrap: true}, {Flags: []string{}}} {
			if _, err := rewrite(in, format, w, every); errors.Is(err, errNotMeant) {
				t.Fatal(err)
			}
		}
		r, err := rewrite(in, format, Options{}, every)
		if errors.Is(err, errNotMeant) {
			t.Fatal(err)
		}
		if err != nil || slices.ContainsFunc(r.Changes, func(c Change) bool { return !c.Edited && c.Err == nil }) {
			return // not read, or wrapped before
		}
		back, err := rewrite(r.Text, format, Options{Unwrap: true}, every)
		if err != nil || !bytes.Equal(back.Text, in) {
			t.Fatalf("%q became %q and %q, %v", in, r.Text, back.Text, err)
		}
	})
}
