package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scene is something that people do with an engine. It returns all they see of it, less what differs each time.
type scene struct {
	name string
	play func(route) string
}

func scenes() []scene {
	return []scene{
		{"run", playRun}, {"interactive", playInteractive}, {"terminal", playTerminal}, {"exec", playExec}, {"copy", playCopy},
		{"build", playBuild}, {"half-close", playHalfClose}, {"methods", playMethods}, {"keep-alive", playKeepAlive}, {"chunked", playChunked},
	}
}

// What clients see through the proxy is what they see without it. The bytes of the protocol are tests of the proxy
// (internal/engine/keeper); here are its real clients.
func TestEngineTransparency(t *testing.T) {
	e := engineFor(t)
	image := e.image(t)
	s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + e.host}})
	if host == e.host {
		t.Fatalf("the server has DOCKER_HOST=%s, and there is no proxy in between", host)
	}
	t.Run("scenes", func(t *testing.T) {
		for _, sc := range scenes() {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				direct := route{t: t, name: "route1", host: e.host, image: image, scene: sc.name}
				want := sc.play(direct)
				through := direct
				through.name, through.host = "route2", host
				wantSame(t, want, sc.play(through))
				// The control: the scene sees what a worse proxy does.
				for _, sp := range spoilers() {
					if sp.scene == sc.name {
						worse := direct
						worse.name, worse.host = "route3", relayTo(t, e, sp.relay)
						if sc.play(worse) == want {
							t.Errorf("%s: nobody saw it", sp.name)
						}
					}
				}
			})
		}
	})
	s.end()
}

func wantSame(t *testing.T, direct, other string) {
	t.Helper()
	if direct == other {
		return
	}
	at := commonLength(direct, other)
	t.Errorf("what is seen is not the same from byte %d on.\ndirect: ...%s\nhere: ...%s", at, around(direct, at), around(other, at))
}

func commonLength(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func around(s string, at int) string { return s[max(at-500, 0):min(at+500, len(s))] }

// ready is what a container's program says once SIGTERM ends it (fixture/tool.go, rest).
const ready = "ready\n"

func playRun(r route) string {
	kept := r.container("kept")
	return strings.Join([]string{
		r.docker(r.run([]string{"--rm"}, "say", "out\n", "err\n", "0")...),
		r.docker(r.run([]string{"--rm", "--init", "-a", "stderr"}, "say", "out\n", "err\n", "3")...),
		r.docker("run", "--rm", "--network=none", "--entrypoint=/nothing", r.image),
		r.docker("run", "--rm", "--network=none", "--entrypoint=/proc", r.image),
		r.docker("run", "--no-such-flag"),
		r.docker("run", "--rm", "--network=none", "--memory=1", r.image),
		r.docker(r.run([]string{"-d", "--name", kept}, "rest", ready)...),
		r.docker(r.run([]string{"--name", kept}, "rest")...),
		r.docker("ps", "-a", "--filter", "name="+kept, "--format", "{{.Names}} {{.State}} {{.Image}}"),
		r.awaitLogs(kept, ready), r.docker("kill", kept), r.docker("wait", kept),
		r.docker("start", kept), r.awaitLogs(kept, ready+ready), r.docker("stop", kept), r.docker("wait", kept),
		r.docker("rename", kept, kept+"x"), r.docker("rename", kept+"x", kept),
		r.docker("rm", kept), r.docker("rm", kept), r.docker("start", kept), r.docker("inspect", kept),
	}, "\n")
}

func playInteractive(r route) string {
	k := r.start(r.run([]string{"-i", "--rm"}, "echo")...)
	return k.say("one\n") + k.say(strings.Repeat("long ", 20_000)+"\n") + k.say("\n") + k.say("three\n") + k.end()
}

func playTerminal(r route) string {
	c := r.container("c")
	y := openTTY(r.t, append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "TERM=dumb"), nil,
		append([]string{"docker"}, r.run([]string{"-it", "--name", c}, "tty")...)...)
	y.expect("size ")
	followed := false
	// The client does not listen for the first changes yet.
	for try := uint16(0); try < 30 && !followed; try++ {
		y.resize(41, 101+try)
		followed, _ = y.look(time.Second, fmt.Sprintf("size 41 %d.", 101+try))
	}
	y.typed("\x10\x11") // leaves the container alone
	seen := fmt.Sprintf("followed %v, detached %v\n", followed, y.cmd.Wait())
	z := openTTY(r.t, append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "TERM=dumb"), nil, "docker", "attach", c)
	z.typed("\n")
	return seen + fmt.Sprintf("ended %v\n", z.cmd.Wait()) + r.docker("wait", c)
}

func playExec(r route) string {
	c := r.container("c")
	in := func(args ...string) []string {
		return append(append([]string{"exec"}, args...), c, "/fixture", "tool")
	}
	seen := []string{r.docker(r.run([]string{"-d", "--name", c}, "rest")...)}
	seen = append(seen,
		r.docker(append(in(), "say", "out\n", "err\n", "5")...),
		r.fed(strings.NewReader(strings.Repeat("all of it ", 30_000)), append(in("-i"), "sink")...),
		r.docker(append(in("-d"), "rest")...),
		r.docker("exec", c, "/nothing"), r.docker("exec", "-w", "/nowhere", c, "/fixture"), r.docker("exec", "-u", "nobody", c, "/fixture"),
		r.docker("exec", r.named("no"), "/fixture"))
	k := r.start(append(in("-i"), "echo")...)
	seen = append(seen, k.say("one\n"), k.say("two\n"), k.end())
	y := openTTY(r.t, append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "TERM=dumb"), nil, append([]string{"docker"}, append(in("-it"), "tty")...)...)
	y.expect("size ")
	y.typed("\n")
	return strings.Join(append(seen, fmt.Sprint(y.cmd.Wait()), r.docker("kill", c), r.docker("exec", c, "/fixture")), "\n")
}

func playCopy(r route) string {
	c := r.container("c")
	dir := filepath.Join(r.t.TempDir(), r.name)
	content := []byte(strings.Repeat("0123456789abcdef", mib/4))
	seen := r.docker(r.on("create", []string{"--name", c}, "rest")...)
	seen += r.fed(tarOf(r.t, "file", 0o640, content), "cp", "-", c+":/")
	seen += r.docker("cp", c+":/file", dir) + fmt.Sprintln("back:", bytes.Equal(content, readFile(r.t, dir)))
	seen += r.docker("cp", dir, c+":/again")
	seen += r.docker("cp", c+":/nothing", dir) + r.docker("cp", r.named("no")+":/file", dir)
	return strings.ReplaceAll(seen, filepath.Dir(dir), "DIR")
}

// buildDir is a context with everything that a classic build does: it copies, runs, sets and labels.
func buildDir(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("Dockerfile", "FROM "+image+"\nARG A=2\nCOPY large /large\nRUN [\"/fixture\",\"tool\",\"say\",\"out\\n\",\"\",\"0\"]\nLABEL a=$A\n")
	write("Failing", "FROM scratch\nCOPY nothing /\n")
	write("large", strings.Repeat("0123456789abcdef", mib/4))
	return dir
}

func playBuild(r route) string {
	name, dir := r.named("built"), buildDir(r.t, r.image)
	r.t.Cleanup(func() { r.cleanUp("rmi", "-f", name) })
	seen := r.docker("build", "--network=none", "--no-cache", "-t", name, "--build-arg", "A=3", dir)
	seen += r.docker("inspect", "--format", "{{len .RootFS.Layers}} {{.Config.Labels}}", name)
	return seen + r.docker("build", "-f", filepath.Join(dir, "Failing"), dir) + r.fed(strings.NewReader("FROM scratch\nNONSENSE\n"), "build", "-")
}

// A hijacked stream of which only the client's half is closed, by both ways that there are to ask for one.
func playHalfClose(r route) string {
	seen := ""
	for i, headers := range [][]string{{"Connection: Upgrade", "Upgrade: tcp"}, nil} {
		c := r.container(fmt.Sprint("c", i))
		r.docker(r.on("create", []string{"-i", "--name", c}, "sink")...)
		conn := r.dial()
		_, _ = io.WriteString(conn, message("POST", "/v1.41/containers/"+c+"/attach?stream=1&stdin=1&stdout=1&stderr=1", "", headers...))
		in := newLines(conn)
		seen += in.head()
		seen += r.docker("start", c)
		_, _ = io.WriteString(conn, strings.Repeat("all of it ", 200_000))
		_ = conn.CloseWrite()
		seen += fmt.Sprintf("%q", r.readAll(in)) + r.docker("wait", c)
	}
	return r.plain(seen)
}

// Requests of all methods, byte for byte. The proxy has each on a connection of its own.
func playMethods(r route) string {
	seen := ""
	for i := range 20 {
		method := []string{"GET", "HEAD", "POST", "DELETE"}[i%4]
		body := ""
		if method == "POST" {
			body = "{}"
		}
		seen += r.raw(lastMessage(method, fmt.Sprintf("/v1.41/containers/none%d/start", i), body))
	}
	return r.plain(seen + r.raw(lastMessage("GET", "/_ping", "")) + r.raw(lastMessage("HEAD", "/_ping", "")) + r.raw(lastMessage("GET", "/version", "")))
}

// A client that keeps its connection alive is told that it ends, and makes another one.
func playKeepAlive(r route) string {
	path := strings.TrimPrefix(r.host, "unix://")
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	seen := ""
	for i := range 20 {
		resp, err := c.Post(fmt.Sprintf("http://docker/v1.41/containers/none%d/start", i), "application/json", strings.NewReader("{}"))
		if err != nil {
			return "failed: " + err.Error()
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		seen += fmt.Sprintln(resp.StatusCode, string(body), err)
	}
	return r.plain(seen)
}

func playChunked(r route) string {
	name, c := r.named("image"), r.container("c")
	r.t.Cleanup(func() { r.cleanUp("rmi", "-f", name) })
	archive := chunked(tarOf(r.t, r.scene, 0o600, bytes.Repeat([]byte("image "), 1<<18)).String())
	head := func(path, kind string) string {
		return lastMessage("POST", path, "", "Transfer-Encoding: chunked", "Content-Type: "+kind)
	}
	body := `{"Image":"` + r.image + `","Cmd":["tool","rest"],"Env":["A=` + strings.Repeat("long ", 9999) + `"],"HostConfig":{"NetworkMode":"none"}}`
	return r.raw(head("/v1.41/images/create?fromSrc=-&repo="+name, "application/x-tar")+archive) +
		r.raw(head("/v1.41/containers/create?name="+c, "application/json")+chunked(body)) +
		r.docker("inspect", "--format", "{{.Config.Env}} {{.Config.Cmd}}", c)
}

// spoiler is a relay with a fault.
type spoiler struct {
	name, scene string // that must show it
	relay       func(client, engine *net.UnixConn)
}

func spoilers() []spoiler {
	both := func(client, engine *net.UnixConn, back io.Writer) {
		go func() { _, _ = io.Copy(engine, client); _ = engine.CloseWrite() }()
		_, _ = io.Copy(back, engine)
		_ = client.CloseWrite()
	}
	return []spoiler{
		{name: "no half-close", scene: "half-close", relay: func(c, e *net.UnixConn) {
			go func() { _, _ = io.Copy(c, e) }()
			_, _ = io.Copy(e, c)
			_, _ = e.Close(), c.Close()
		}},
		{name: "a byte is another", scene: "copy", relay: func(c, e *net.UnixConn) {
			both(c, e, &edited{w: c, edit: func(at int, b []byte) []byte {
				if at < 9000 && at+len(b) > 9000 {
					b[9000-at] ^= 2
				}
				return b
			}})
		}},
		{name: "a header more", scene: "methods", relay: func(c, e *net.UnixConn) {
			both(c, e, &edited{w: c, edit: func(_ int, b []byte) []byte {
				return bytes.Replace(b, []byte("\r\nApi-Version:"), []byte("\r\nVia: spoiler\r\nApi-Version:"), 1)
			}})
		}},
		{name: "short", scene: "chunked", relay: func(c, e *net.UnixConn) {
			go func() { _, _ = io.CopyN(e, c, 70_000); _, _ = e.Close(), c.Close() }()
			_, _ = io.Copy(c, e)
			_ = c.CloseWrite()
		}},
	}
}

// edited is a writer with an edit in between, which knows how many bytes have passed.
type edited struct {
	w    io.Writer
	edit func(at int, b []byte) []byte
	at   int
}

func (e *edited) Write(b []byte) (int, error) {
	_, err := e.w.Write(e.edit(e.at, b))
	e.at += len(b)
	return len(b), err
}
