package session

import (
	"slices"
	"strings"
	"testing"
)

// secret is what must not be found in any record.
const secret = "hunter2"

func TestRedactHides(t *testing.T) {
	for _, args := range [][]string{
		{"srv", "--token", secret}, {"srv", "--token=" + secret}, {"srv", "-token", secret}, {"srv", "--api-key", secret},
		{"srv", "--API_KEY=" + secret}, {"srv", "--password", secret}, {"srv", "--passwd=" + secret}, {"srv", "--client-secret", secret},
		{"srv", "--auth", secret}, {"srv", "--credentials=" + secret}, {"srv", "--cookie", secret}, {"srv", "--bearer", secret},
		{"env", "API_KEY=" + secret, "srv"}, {"env", "GITHUB_TOKEN=" + secret, "srv"}, {"env", "github_token=" + secret, "srv"},
		{"srv", "--header", "Authorization: Bearer " + secret}, {"srv", "-H", "X-Api-Key:" + secret},
		{"srv", "-H", "authorization:Basic " + secret}, {"srv", "--header=Authorization: Bearer " + secret},
		{"srv", "--header=X-Auth-Token: " + secret}, {"srv", "-H", "Cookie: sid=" + secret},
		{"srv", "https://user:" + secret + "@example.org/mcp"}, {"srv", "https://" + secret + "@example.org"},
		{"srv", "postgres://u:" + secret + "@db:5432/x?sslmode=off"}, {"srv", "--dsn=postgres://u:" + secret + "@db/x"},
		{"srv", "https://user:p@" + secret + "@example.org/"},
		{"srv", "https://example.org/mcp?api_key=" + secret}, {"srv", "https://example.org/?a=b&token=" + secret},
		{"docker", "run", "-e", "API_KEY=" + secret, "image"}, {"docker", "run", "--env=API_KEY=" + secret, "image"},
		{"docker", "run", "-eAPI_KEY=" + secret, "image"}, {"docker", "run", "-e=API_KEY=" + secret, "image"},
		{"srv", "--set=mode=fast,token=" + secret}, {"srv", "--token", "-" + secret},
		{"sh", "-c", "API_KEY=" + secret + " exec srv"}, {"sh", "-c", "A=1 API_KEY=" + secret + " exec srv"},
		{"sh", "-c", "exec srv --token " + secret}, {"sh", "-c", "exec srv --token=" + secret},
		{"sh", "-c", "exec srv --token  " + secret},
		{"sh", "-c", "exec srv --token \\\n  " + secret}, {"sh", "-c", "exec srv --token\t" + secret}, {"sh", "-c", "srv \\\n--token " + secret},
		{"sh", "-c", "A_KEY=" + secret + "\n--token " + secret}, {"docker", "run", "-e", "A_KEY=first\n" + secret, "image"},
		{"API_KEY=" + secret},
		{"srv", "--config", `{"exaApiKey":"` + secret + `"}`}, {"srv", "--config", `{"region":"eu","token":"` + secret + `"}`},
		{"srv", "--config", `{"a":{"token":"` + secret + `"}}`}, {"srv", "--config", `{"time":"12:30","token": "` + secret + `"}`},
		{"srv", `--config={"region": "eu", "headers": {"Authorization": "Bearer ` + secret + `"}}`},
		{"srv", `{region:eu,token:` + secret + `}`}, {"srv", `{a:{token:` + secret + `}}`}, {"srv", `{'a':'b','token':'` + secret + `'}`},
		{"sh", "-c", `srv --config "{\"a\":1,\"token\":\"` + secret + `\"}"`},
		{"srv", `{"url":"https://u:` + secret + `@h","token":"x"}`}, {"srv", `{"a":"https://h","b":"https://u:` + secret + `@h/"}`},
		{"docker", "run", "-e", "AUTH_HEADER=Bearer " + secret, "image"}, {"srv", "--password=correct horse " + secret}, {"srv", "--auth=Basic " + secret},
		{"srv", "--dsn", "Server=db;Password=two " + secret + ";Database=x"}, {"env", "API_KEY= " + secret, "srv"},
		{"sh", "-c", `API_KEY="two ` + secret + `" exec srv`}, {"sh", "-c", `A=1 API_KEY="two ` + secret + `" exec srv`},
		{"sh", "-c", `A=1 API_KEY='two ` + secret + `' exec srv`}, {"sh", "-c", "exec srv --auth=Bearer\\ " + secret},
		{"sh", "-c", `A=1 API_KEY="it's ` + secret + `" exec srv`}, {"sh", "-c", `A=1 API_KEY="x; ` + secret + `" exec srv`},
		{"sh", "-c", `bash -c "A=1 API_KEY=\"two ` + secret + `\" srv"`},
		{"sh", "-c", `exec srv --password "two ` + secret + `"`}, {"sh", "-c", `docker run -e "API_KEY=two ` + secret + `" image`},
		{"sh", "-c", `exec srv --flag "--password=two ` + secret + `"`}, {"sh", "-c", `A=1 TOKEN=pre"two ` + secret + `"`},
		{"sh", "-c", "exec srv --auth=Token " + secret}, {"sh", "-c", `exec srv --auth="Bearer ` + secret + `"`},
		{"srv", "-c", `mcp.env={"A"="b","API_TOKEN"="` + secret + `"}`}, {"srv", "API_KEY=" + secret + ";auth:x"},
	} {
		if got := strings.Join(Redact(args), " "); strings.Contains(got, secret) {
			t.Errorf("%q shows %q", args, got)
		}
	}
}

// Only what follows the cut of a long argument shows that a part before it is a secret.
func TestRedactHidesBeforeTheCut(t *testing.T) {
	dsn := "postgres://u:" + secret
	for _, arg := range []string{
		strings.Repeat("x ", (maxArg-len(dsn))/2) + dsn + "@db/x",
		"https://u:" + secret + strings.Repeat("%2F", maxArg/3) + "@example.org/",
		secret + strings.Repeat("a1", maxArg/2),
	} {
		if len(arg) <= maxArg {
			t.Errorf("%q is not cut", arg)
		}
		if got := strings.Join(Redact([]string{"srv", arg}), " "); strings.Contains(got, secret) {
			t.Errorf("%q shows %q", arg, got)
		}
	}
}

func TestRedactHidesRandomWords(t *testing.T) {
	for _, word := range []string{
		"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "sk-proj-4f3A9c0Zk27Lm81Qx", "AKIA2E0A8F3B244C9986", "xoxb-2345678901-abcdEFGH1234",
		"0123456789abcdef0123456789abcdef01234567", "d41d8cd9-8f00-4b20-a980-0998ecf8427e",
	} {
		if got := Redact([]string{"srv", word, "x"}); !slices.Equal(got, []string{"srv", redactedWord, "x"}) {
			t.Errorf("%q gives %q", word, got)
		}
	}
}

// A record is there to be recognised.
func TestRedactShowsTheOrdinary(t *testing.T) {
	for _, args := range [][]string{
		nil, {}, {""}, {"srv", ""}, {"npx", "-y", "@modelcontextprotocol/server-everything"},
		{"uvx", "mcp-server-filesystem", "/srv/data", "--read-only"}, {"node", "/opt/server/dist/index.js", "--port", "8080"},
		{"docker", "run", "-i", "--rm", "-e", "LANG=C", "mcp/filesystem:1.2.3", "/projects"}, {"python3", "-m", "mcp_server_git"},
		{"srv", "https://example.org:8443/mcp?x=1"}, {"sh", "-c", "cd /srv && exec ./server --stdio"}, {"srv", "--name=files", "a=b"},
		{"srv", "--log-level", "debug", "2026-07-28"}, {"srv", "C:/Users/x"}, {"srv", "me@example.org"}, {"srv", "--", "-"},
		{"/home/user/very/long/path/to/some/interpreter/binary", "x"}, {"srv", "internationalization_service"}, {"srv", "12345678901234567890"}, {"srv", "a1b2c3d4e5"},
		{"0123456789abcdef0123456789abcdef"}, {"srv", "--config", `{"region":"eu","port":8080,"url":"https://keys.example.org:8443/a:b"}`},
		{"srv", "https://auth.example.org:8443/mcp"}, {"docker", "run", "-v", "data:/srv/tokens:ro", "-v", "a:sessions:ro", "h:5000/auth-server:1.2"},
		{"srv", `{"a":{"b":["c","d"]}}`}, {"sh", "-c", `NAME="two words" exec srv`}, {"srv", "https://example.org/a@b"},
	} {
		if got := Redact(args); !slices.Equal(got, args) {
			t.Errorf("%q became %q", args, got)
		}
	}
}

// The names of hidden values stay, and the caller's arguments do not change.
func TestRedactKeepsNames(t *testing.T) {
	args := []string{"srv", "--token", "a", "--key=b", "K_SECRET=c", "Authorization: d", "https://u:p@h/x", "--token", "--flag"}
	before := slices.Clone(args)
	got := Redact(args)
	if !slices.Equal(args, before) {
		t.Errorf("the caller's arguments became %q", args)
	}
	for i, want := range []string{"srv", "--token", redactedWord, "--key=" + redactedWord, "K_SECRET=" + redactedWord, "Authorization: " + redactedWord, "https://" + redactedWord + "@h/x"} {
		if got[i] != want {
			t.Errorf("%q became %q, want %q", args[i], got[i], want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("--token", "x", "y")
	f.Add("a=b", "://@", "-")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		args := []string{a, b, c}
		got := Redact(args)
		if len(got) != len(args) {
			t.Fatalf("%q became %q", args, got)
		}
		if value := "v" + strings.Repeat("9z", 20); strings.Contains(Redact([]string{a, b, "API_TOKEN=" + value})[2], value) {
			t.Fatalf("after %q, %q a named secret is shown", a, b)
		}
	})
}
