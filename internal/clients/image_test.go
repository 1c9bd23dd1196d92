package clients

import (
	"strings"
	"testing"
)

func TestRunImage(t *testing.T) {
	for line, want := range map[string]string{
		"docker run -i --rm mcp/fetch --ignore-robots-txt":                "mcp/fetch:latest",
		"/usr/bin/docker run -it --init mcp/fetch:1.2 run x":              "mcp/fetch:1.2",
		"docker container run -i mcp/fetch":                               "mcp/fetch:latest",
		"docker run -e A=B --env C -v /a:/b --mount type=bind,src=/x i x": "i:latest",
		"docker run -eA=B -v/a:/b -p80:80 i":                              "i:latest",
		"docker run -itp 80:80 i":                                         "i:latest",
		"docker run --pull always --gpus all --platform linux/amd64 i":    "i:latest",
		"docker run --rm=true --sig-proxy=false -i=true i":                "i:latest",
		"docker run --entrypoint /x -- i y":                               "i:latest",
		"docker -H unix:///x --context c -D run i":                        "i:latest",
		"docker --config /c -l debug run i":                               "i:latest",
		"podman run --replace --name x --systemd always docker.io/mcp/f":  "mcp/f:latest",
		"docker run docker.io/library/postgres":                           "postgres:latest",
		"docker run localhost:5000/x":                                     "localhost:5000/x:latest",
		"docker run x:2@sha256:00":                                        "x@sha256:00",
		"docker":                                                          "",
		"docker run --name x":                                             "",
		"docker ps":                                                       "",
		"docker compose run x":                                            "",
		"docker -H":                                                       "",
		"dockerd run i":                                                   "",
		"npx docker run i":                                                "",
		"":                                                                "",
	} {
		got, ok := RunImage(strings.Fields(line))
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", line, got, ok, want)
		}
	}
}

func TestConfiguredImage(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"docker", "run", "-i", "x"}, "x:latest"},
		{[]string{"sudo", "-n", "docker", "run", "x"}, "x:latest"},
		{[]string{"env", "A=B", "podman", "run", "x"}, "x:latest"},
		{[]string{"sh", "-c", "exec docker run -i --rm x"}, "x:latest"},
		{[]string{"bash", "-lc", "docker pull x && docker run x"}, ""},
		{[]string{"sh"}, ""},
		{[]string{"npx", "-y", "docker", "run", "x"}, ""},
	} {
		if got := configuredImage(c.words[0], c.words[1:]); got != c.want {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

func TestMatcherImage(t *testing.T) {
	m := NewMatcher([]File{
		{UID: 1000, Servers: []Server{{Name: "a", Command: "docker", Args: []string{"run", "-i", "mcp/a"}}}},
		{AnyUser: true, Servers: []Server{
			{Name: "b", Command: "docker", Args: []string{"run", "mcp/b:2"}},
			{Name: "c", Command: "npx", Args: []string{"c"}},
		}},
	}, nil)
	for _, c := range []struct {
		uid         int
		image, want string
	}{
		{1000, "mcp/a", "a"}, {1000, "docker.io/mcp/a:latest", "a"}, {0, "mcp/a:latest", "a"}, {1001, "mcp/a", ""}, {1001, "mcp/b:2", "b"},
		{1001, "mcp/b", ""}, {1000, "", ""}, {1000, "c", ""},
	} {
		if got, ok := m.Image(c.uid, c.image); got != c.want || ok != (c.want != "") {
			t.Errorf("%d %s: %q, %v; want %q", c.uid, c.image, got, ok, c.want)
		}
	}
}

// Whatever the words are, they are read to their end.
func FuzzRunImage(f *testing.F) {
	for _, line := range []string{"docker run -it x", "docker run --name", "docker -H run", "podman run -- --", "docker run -"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		image, ok := RunImage(strings.Fields(line))
		if ok == (image == "") || strings.ContainsAny(image, " \t\n") {
			t.Errorf("%q: %q, %v", line, image, ok)
		}
	})
}
