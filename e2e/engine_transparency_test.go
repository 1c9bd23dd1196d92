package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// scene is something that people do with an engine. It returns all they see of it, less what differs each time.
type scene struct {
	name string
	play func(route) string
	// eachCLI plays it with every docker command there is; classic with one that brings BuildKit along.
	eachCLI, classic bool
}

func scenes() []scene {
	return []scene{
		{name: "run", play: playRun, eachCLI: true},
		{name: "interactive", play: playInteractive, eachCLI: true},
		{name: "terminal", play: playTerminal, eachCLI: true},
		{name: "exec", play: playExec, eachCLI: true},
		{name: "attach", play: playAttach, eachCLI: true},
		{name: "logs", play: playLogs, eachCLI: true},
		{name: "events", play: playEvents, eachCLI: true},
		{name: "stats", play: playStats},
		{name: "top", play: playTop},
		{name: "inspect", play: playInspect},
		{name: "copy", play: playCopy, eachCLI: true},
		{name: "images", play: playImages, eachCLI: true},
		{name: "build", play: playBuild, eachCLI: true},
		{name: "buildkit", play: playBuildKit, classic: true},
		{name: "missing image", play: playMissing, eachCLI: true},
		{name: "versions", play: playVersions, eachCLI: true},
		{name: "half-close", play: playHalfClose},
		{name: "unknown", play: playUnknown},
		{name: "malformed", play: playMalformed},
		{name: "keep-alive", play: playKeepAlive},
		{name: "chunked", play: playChunked},
		{name: "piecemeal", play: playPiecemeal},
		{name: "stream of stats", play: playStatsStream},
	}
}

// What clients see through the proxy is what they see without it.
func TestEngineTransparency(t *testing.T) {
	e := engineFor(t)
	image, all := e.image(t), dockers(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	if host == e.host {
		t.Fatalf("the server has DOCKER_HOST=%s, and there is no proxy in between", host)
	}
	t.Run("scenes", func(t *testing.T) {
		for _, sc := range scenes() {
			for i, cli := range all {
				if sc.classic != cli.classic() && sc.classic || i > 0 && !sc.eachCLI && !sc.classic {
					continue
				}
				t.Run(sc.name+"/"+cli.version, func(t *testing.T) {
					t.Parallel()
					r := route{t: t, name: "route1", host: e.host, cli: cli.path, image: image, scene: strings.ReplaceAll(sc.name, " ", "-") + cli.version[:2]}
					want := sc.play(r)
					r.name, r.host = "route2", host
					wantSame(t, want, sc.play(r))
				})
			}
		}
	})
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
	s.gone()
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

// sorted is for what comes in any order.
func sorted(text string) string {
	all := strings.Fields(text)
	slices.Sort(all)
	return strings.Join(all, " ") + "\n"
}

func around(s string, at int) string { return s[max(at-500, 0):min(at+500, len(s))] }

// The scenes do pass through the proxy: what they create has the session's label, and what others create has not.
func TestEngineTransparencyIsThroughTheProxy(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	for name, want := range map[string]string{"route1": "", "route2": s.id()} {
		r := route{t: t, name: name, host: e.host, cli: dockerPath(t), image: e.image(t), scene: "label"}
		if name == "route2" {
			r.host = host
		}
		c := r.container("c")
		r.docker(r.on("create", []string{"--name", c}, "rest")...)
		got := e.docker(t, "inspect", "--format", `{{index .Config.Labels "mcp-tether.session"}}`, c)
		if strings.TrimSpace(got.stdout) != want {
			t.Errorf("%s: the container has session %q, want %q (%s)", name, got.stdout, want, got.stderr)
		}
	}
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
	s.gone()
}

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
		append([]string{r.cli}, r.run([]string{"-it", "--name", c}, "tty")...)...)
	y.expect("size ")
	followed := false
	// The client does not listen for the first changes yet.
	for try := uint16(0); try < 30 && !followed; try++ {
		y.resize(41, 101+try)
		followed, _ = y.look(time.Second, fmt.Sprintf("size 41 %d.", 101+try))
	}
	y.typed("\x10\x11") // leaves the container alone
	seen := fmt.Sprintf("followed %v, detached %v\n", followed, y.cmd.Wait())
	z := openTTY(r.t, append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "TERM=dumb"), nil, r.cli, "attach", c)
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
	y := openTTY(r.t, append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "TERM=dumb"), nil, append([]string{r.cli}, append(in("-it"), "tty")...)...)
	y.expect("size ")
	y.typed("\n")
	return strings.Join(append(seen, fmt.Sprint(y.cmd.Wait()), r.docker("kill", c), r.docker("exec", c, "/fixture")), "\n")
}

func playAttach(r route) string {
	c, once := r.container("c"), r.container("once")
	seen := r.docker(r.run([]string{"-di", "--name", c}, "echo")...)
	k := r.start("attach", "--sig-proxy=false", c)
	seen += k.say("one\n") + k.say("two\n")
	other := r.start("attach", "--sig-proxy=false", c)
	seen += other.say("to both\n") + k.line() + r.docker("kill", c) + k.rest() + other.rest()
	seen += r.docker(r.on("create", []string{"-i", "--name", once}, "sink")...)
	seen += r.fed(strings.NewReader(strings.Repeat("all of it ", 300_000)), "start", "-ai", once)
	return seen + r.docker("attach", once)
}

func playLogs(r route) string {
	c := r.container("c")
	seen := r.docker(r.run([]string{"-di", "--name", c}, "lines", "3000")...)
	follow, k := r.start("logs", "-f", c), r.start("attach", "--sig-proxy=false", c)
	seen += k.say("\n")
	for line := ""; !strings.Contains(line, "line 2999 ") && !strings.Contains(line, "failed"); seen += line {
		line = follow.line()
	}
	// Only now: an engine of this age may cut off a client that follows a container that ends.
	_, _ = io.WriteString(k.in, "\n")
	seen += k.rest() + follow.rest() + r.docker("logs", c)
	said := r.container("said")
	seen += r.docker(r.run([]string{"--name", said}, "say", "one\ntwo\nthree\n", "", "0")...)
	return seen + r.docker("logs", "-t", "--tail", "2", said) + r.docker("logs", "-f", "--since=1", said) + r.docker("logs", r.named("no"))
}

func playEvents(r route) string {
	c := r.container("c")
	format := "{{.Type}} {{.Action}} {{.Actor.Attributes.name}} {{.Actor.Attributes.exitCode}}"
	k := r.start("events", "--since=1", "--filter", "container="+c, "--format", format)
	seen := r.docker(r.run([]string{"--rm", "--name", c}, "say", "out\n", "err\n", "9")...)
	for line := ""; !strings.Contains(line, "destroy") && !strings.Contains(line, "failed"); seen += line {
		line = k.line()
	}
	return seen + r.docker("events", "--since=1", "--until=2") + r.docker("events", "--since=nonsense")
}

func playStats(r route) string {
	c := r.container("c")
	r.docker(r.run([]string{"-d", "--name", c}, "rest")...)
	return r.docker("stats", "--no-stream", "--format", "{{.Name}}", c) + r.docker("stats", "--no-stream", r.named("no"))
}

// Two reports of an endless answer, which the client then lets go.
func playStatsStream(r route) string {
	c := r.container("c")
	r.docker(r.run([]string{"-d", "--name", c}, "rest")...)
	conn := r.dial()
	_, _ = io.WriteString(conn, message("GET", "/v1.41/containers/"+c+"/stats", ""))
	in := newLines(conn)
	var seen []string
	for range 2 {
		var report map[string]any
		if err := json.Unmarshal([]byte(in.find("{")), &report); err != nil {
			return err.Error()
		}
		for key := range report {
			seen = append(seen, key)
		}
	}
	slices.Sort(seen)
	_ = conn.Close()
	return strings.Join(seen, " ") + r.docker("kill", c)
}

func playTop(r route) string {
	c := r.container("c")
	seen := r.docker(r.run([]string{"-d", "--name", c}, "rest", ready)...)
	r.awaitLogs(c, ready) // before that, it may still be what starts the container
	seen += r.docker("top", c, "-o", "pid,args") + r.docker("top", c, "--nonsense") + r.docker("top", r.named("no"))
	return regexp.MustCompile(`(?m)^\d+ +`).ReplaceAllString(seen, "PID ")
}

// Everything that was asked for at a create arrives, and only our labels are added.
func playInspect(r route) string {
	c := r.container("c")
	seen := r.docker(r.on("create", []string{
		"-it", "--name", c, "-e", "A=\u2028\"\\\n", "-e", "EMPTY=", "-l", "mine=1", "-l", "mcp-tether=no", "-l", "empty=", "--entrypoint", "/fixture",
		"--init", "--memory", "64m", "--restart", "on-failure:3", "-v", "/proc:/there:ro", "--tmpfs", "/tmp", "--stop-signal", "INT", "--stop-timeout", "7",
		"-u", "5:6", "-w", "/tmp", "--cap-drop", "ALL", "--pids-limit", "99", "--log-opt", "max-size=1m", "--health-cmd", "true", "--add-host", "a:1.2.3.4",
	}, "rest")...)
	var all []map[string]any
	var errs bytes.Buffer
	cmd := r.command("inspect", c)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &all) != nil || len(all) != 1 {
		return fmt.Sprint(err, errs.String())
	}
	labels := all[0]["Config"].(map[string]any)["Labels"].(map[string]any)
	for name := range labels {
		if strings.HasPrefix(name, "mcp-tether.") {
			delete(labels, name)
		}
	}
	env := all[0]["Config"].(map[string]any)["Env"].([]any)
	slices.SortFunc(env, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	text, err := json.MarshalIndent(all[0], "", " ")
	return seen + r.plain(string(text)) + fmt.Sprint(err)
}

func playCopy(r route) string {
	c := r.container("c")
	dir := filepath.Join(r.t.TempDir(), r.name)
	content := []byte(strings.Repeat("0123456789abcdef", mib/4))
	seen := r.docker(r.on("create", []string{"--name", c}, "rest")...)
	seen += r.fed(tarOf(r.t, "file", 0o640, content), "cp", "-", c+":/")
	seen += r.docker("cp", c+":/file", dir) + fmt.Sprintln("back:", bytes.Equal(content, readFile(r.t, dir)))
	seen += r.docker("cp", dir, c+":/again") + sorted(r.docker("diff", c))
	cmd := r.command("cp", c+":/file", "-")
	out, err := cmd.Output()
	seen += fmt.Sprintf("%x %v\n", digest(out), err)
	seen += r.docker("cp", c+":/nothing", dir) + r.docker("cp", r.named("no")+":/file", dir)
	return strings.ReplaceAll(seen, filepath.Dir(dir), "DIR")
}

func playImages(r route) string {
	name := r.named("image")
	r.t.Cleanup(func() { r.cleanUp("rmi", "-f", name) })
	seen := r.fed(tarOf(r.t, r.scene, 0o600, bytes.Repeat([]byte("image "), 1<<20)), "import", "-c", "ENV A=1", "-m", "said", "-", name)
	// Its size to the byte is not asked for: in a containerd store it counts the digits of a time.
	seen += r.docker("inspect", "--format", "{{.RootFS.Layers}} {{.Config.Env}} {{.Comment}}", name)
	saved, err := r.command("save", r.image).Output()
	seen += fmt.Sprintf("%x %v\n", digest(saved), err)
	seen += r.fed(bytes.NewReader(saved), "load") + r.fed(strings.NewReader("no archive"), "load")
	seen += r.docker("history", "--format", "{{.CreatedBy}}{{.Size}}", name) + r.docker("tag", name, name+":b") + r.docker("rmi", name+":b")
	return seen + r.docker("rmi", name) + r.docker("rmi", name) + r.docker("images", name) + r.docker("volume", "inspect", r.named("no"))
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

// BuildKit's own output has times and an order of its own; what is compared are the steps, and what is built.
func playBuildKit(r route) string {
	name, dir := r.named("built"), buildDir(r.t, r.image)
	r.t.Cleanup(func() { r.cleanUp("rmi", "-f", name) })
	steps := func(args ...string) string {
		cmd := r.command(append([]string{"build", "--network=none", "--no-cache", "--progress=plain", "-t", name}, args...)...)
		cmd.Env = append(cmd.Env, "DOCKER_BUILDKIT=1")
		out, err := cmd.CombinedOutput()
		found := regexp.MustCompile(`\[[^\]]*\] .*|(?m)^failed to .*`).FindAllString(string(out), -1)
		slices.Sort(found)
		return strings.Join(append(slices.Compact(found), fmt.Sprintln(err)), "\n")
	}
	seen := steps("--build-arg", "A=3", dir) + r.docker("inspect", "--format", "{{len .RootFS.Layers}} {{.Config.Labels}}", name)
	return r.plain(strings.ReplaceAll(seen+steps("-f", filepath.Join(dir, "Failing"), dir), dir, "DIR"))
}

// The registry is a port at which nobody listens.
func playMissing(r route) string {
	const image = "127.0.0.1:1/none"
	return r.docker("pull", image) + r.docker("run", "--rm", image) + r.docker("create", "--pull=never", image) +
		r.docker("push", image) + r.docker("pull", "Not A Name")
}

func playVersions(r route) string {
	seen := r.docker("version") + r.docker("version", "--format", "{{json .}}") + r.docker("info", "--format", "{{.ServerVersion}} {{.Driver}} {{.ID}}")
	for _, version := range []string{"1.24", "1.30", "1.99"} {
		cmd := r.command("version", "--format", "{{.Client.APIVersion}} {{.Server.APIVersion}}")
		cmd.Env = append(cmd.Env, "DOCKER_API_VERSION="+version)
		seen += r.finish(cmd)
	}
	return seen + r.raw(lastMessage("HEAD", "/_ping", "")) + r.raw(lastMessage("GET", "/_ping", "")) + r.raw(lastMessage("GET", "/version", ""))
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

func playUnknown(r route) string {
	seen := ""
	for _, path := range []string{
		"/nonsense", "/v1.41/nonsense", "/v9.99/containers/json", "/v1.2/info", "//containers/json", "/v1.41/containers/../_ping", "/",
		"/v1.41/containers/no%2Fsuch/json", "/containers/create", "/v1.41/containers/nonsense/json?size=1", "/v1.41/libpod/containers/json", "*",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"} {
			seen += method + " " + path + "\n" + r.raw(lastMessage(method, path, ""))
		}
	}
	return seen
}

// What is no request at all is refused; in whose words does not matter.
func playMalformed(r route) string {
	seen := ""
	// None is shorter than the preface of HTTP/2: an engine that speaks it waits for the rest.
	for _, odd := range []string{
		"\r\n\r\n" + lastMessage("GET", "/_ping", ""), "GET /_ping HTTP/1.0\r\n\r\n", "GET /_ping HTTP/1.1\r\n\r\n", "GET /_ping HTTP/9.1\r\nHost: x\r\n\r\n",
		"nonsense longer than a preface\r\n\r\n", "GET /_ping HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n", "GET /_ping HTTP/1.1\nHost: x\nConnection: close\n\n",
		"POST /v1.41/containers/prune HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		lastMessage("DELETE", "/v1.41/containers/%zz", ""), lastMessage("GET", "/v1.41/containers/%zz/json", ""), "GET /_ping?longer=than+a+preface\r\n\r\n",
	} {
		status, _, _ := strings.Cut(r.raw(odd)+" ", "\r\n")
		if strings.Contains(status, " 400 ") || strings.Contains(status, " 505 ") {
			status = "refused"
		}
		seen += fmt.Sprintf("%q\n%s\n", odd, status)
	}
	return seen
}

// Many requests on one connection: each after the answer to the one before it, then all at once.
func playKeepAlive(r route) string {
	c := r.dial()
	in := newLines(c)
	seen := ""
	for i := range 20 {
		method := []string{"GET", "HEAD", "POST", "DELETE"}[i%4]
		body := ""
		if method == "POST" {
			body = "{}"
		}
		_, _ = io.WriteString(c, message(method, fmt.Sprintf("/v1.41/containers/none%d/start", i), body))
		seen += in.answer(method)
	}
	all := ""
	for i := range 10 {
		all += message("GET", "/_ping", "") + message("POST", fmt.Sprintf("/v1.41/containers/none%d/kill", i), "{}") + message("HEAD", "/_ping", "")
	}
	_, _ = io.WriteString(c, all+lastMessage("GET", "/version", ""))
	return r.plain(seen + r.readAll(in))
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

// A client whose every byte is a packet of its own.
func playPiecemeal(r route) string {
	c := r.container("c")
	conn := r.dial()
	go func() {
		for _, b := range []byte(message("GET", "/_ping", "") + r.create(c)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}()
	return r.readAll(conn)
}

// spoiler is a relay with a fault.
type spoiler struct {
	name   string
	scenes []string // that must show it
	relay  func(client, engine *net.UnixConn)
}

func spoilers() []spoiler {
	both := func(client, engine *net.UnixConn, back io.Writer) {
		go func() { _, _ = io.Copy(engine, client); _ = engine.CloseWrite() }()
		_, _ = io.Copy(back, engine)
		_ = client.CloseWrite()
	}
	return []spoiler{
		{name: "no half-close", scenes: []string{"half-close"}, relay: func(c, e *net.UnixConn) {
			go func() { _, _ = io.Copy(c, e) }()
			_, _ = io.Copy(e, c)
			_, _ = e.Close(), c.Close()
		}},
		{name: "a byte is another", scenes: []string{"copy", "images", "logs"}, relay: func(c, e *net.UnixConn) {
			both(c, e, &edited{w: c, edit: func(at int, b []byte) []byte {
				if at < 9000 && at+len(b) > 9000 {
					b[9000-at] ^= 2
				}
				return b
			}})
		}},
		{name: "a header more", scenes: []string{"versions", "unknown", "chunked", "piecemeal", "keep-alive"}, relay: func(c, e *net.UnixConn) {
			both(c, e, &edited{w: c, edit: func(_ int, b []byte) []byte {
				return bytes.Replace(b, []byte("\r\nApi-Version:"), []byte("\r\nVia: spoiler\r\nApi-Version:"), 1)
			}})
		}},
		{name: "short", scenes: []string{"build", "interactive", "chunked"}, relay: func(c, e *net.UnixConn) {
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

// The scenes see what a worse proxy does.
func TestEngineTransparencyCanFail(t *testing.T) {
	e := engineFor(t)
	image, cli := e.image(t), dockers(t)[0]
	for _, sp := range spoilers() {
		for _, sc := range scenes() {
			if !slices.Contains(sp.scenes, sc.name) {
				continue
			}
			t.Run(sp.name+"/"+sc.name, func(t *testing.T) {
				t.Parallel()
				r := route{t: t, name: "route1", host: e.host, cli: cli.path, image: image, scene: "bad-" + strings.ReplaceAll(sc.name, " ", "-")}
				want := sc.play(r)
				r.name, r.host = "route3", relayTo(t, e, sp.relay)
				if sc.play(r) == want {
					t.Error("nobody saw it")
				}
			})
		}
	}
}

// Streams that are too large to hold in memory arrive unchanged, in both directions at once. The proxy does not hold
// them either.
func TestEngineLargeStreams(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	const size = 512 * mib
	for _, on := range []string{e.host, host} {
		r := route{t: t, name: "route1", host: on, cli: dockerPath(t), image: e.image(t), scene: "large"}
		// Not into the engine's log: that would measure its disk.
		cmd := r.command(r.run([]string{"-i", "--rm", "--log-driver=none"}, "echo")...)
		sent, got := sha256.New(), sha256.New()
		cmd.Stdin = io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{4}), size), sent)
		count := &counter{}
		cmd.Stdout = io.MultiWriter(got, count)
		if err := cmd.Run(); err != nil || count.n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Fatalf("%s: %d bytes came back of %d, or others (%v)", on, count.n, size, err)
		}
	}
	if peak := peakMemory(t, s.supervisor()); peak > 48*kib {
		t.Errorf("the supervisor has held %d KiB", peak)
	}
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
	s.gone()
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}
