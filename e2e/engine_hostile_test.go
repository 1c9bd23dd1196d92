package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// clientOf is a route without a docker command: what is sent is written here, byte for byte.
func clientOf(t *testing.T, host string) route {
	return route{t: t, name: "route1", host: host}
}

// end closes the session's stdin and expects that nothing of it is left.
func (s *session) end() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.wait(), "exit 0")
	s.gone()
}

// endLeaving ends a session that cannot know what became of its containers: it says so, and its record stays for reap.
func (s *session) endLeaving() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.wait(), "exit 0")
	s.wantLeft()
}

// wantLeft waits for the end of a session that says that containers may be left, and whose record stays for reap.
func (s *session) wantLeft() {
	s.t.Helper()
	s.waitDead()
	if !s.warned("containers may be left") {
		s.t.Error("nobody says that containers may be left")
	}
	if len(s.records()) != 1 {
		s.t.Errorf("records: %v, want one for reap", s.records())
	}
}

// warned tells whether the log of a session that has ended has a warning, or worse, with these words.
func (s *session) warned(words string) bool {
	s.t.Helper()
	for line := range bytes.Lines(readFile(s.t, s.log)) {
		var e struct{ Level string }
		s.ok(json.Unmarshal(line, &e))
		if (e.Level == "warn" || e.Level == "error") && bytes.Contains(line, []byte(words)) {
			return true
		}
	}
	return false
}

// badCreate is a create that cannot be labelled for certain.
type badCreate struct {
	name, message string
}

func badCreates() []badCreate {
	const path = "/v1.41/containers/create"
	var all []badCreate
	for _, b := range []badCreate{
		{"half an object", `{"Image":"a"`}, {"an array", `[{"Image":"a"}]`}, {"a string", `"Image"`}, {"nothing but space", " \r\n"}, {"null", "null"},
		{"two objects", `{"Image":"a"}{"Image":"b"}`}, {"rubbish after it", `{"Image":"a"} x`}, {"comma at the end", `{"Image":"a",}`},
		{"labels are a number", `{"Image":"a","Labels":7}`}, {"labels are a list", `{"labels":["a"]}`}, {"second labels are a string", `{"Labels":{},"LABELS":"x"}`},
		{"single quotes", `{'Image':'a'}`}, {"no text", "\xff\xfe\x00"}, {"too deep", `{"a":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + "}"},
		{"3 MiB and no end", `{"Image":"` + strings.Repeat("a", 3*mib)},
	} {
		all = append(all, badCreate{b.name, lastMessage("POST", path, b.message)})
	}
	good := `{"Image":"a"}`
	return append(all,
		badCreate{"no body", lastMessage("POST", path, "")},
		badCreate{"compressed", lastMessage("POST", path, good, "Content-Encoding: gzip")},
		badCreate{"5 MiB", lastMessage("POST", path, "", fmt.Sprint("Content-Length: ", 5*mib)) + good},
		badCreate{"5 MiB in chunks", lastMessage("POST", path, "", "Transfer-Encoding: chunked") + chunked(`{"Image":"`+strings.Repeat("a", 5*mib)+`"}`)},
		badCreate{"no chunks", lastMessage("POST", path, "", "Transfer-Encoding: chunked") + good + "\r\n\r\n"},
		badCreate{"a chunk that lies", lastMessage("POST", path, "", "Transfer-Encoding: chunked") + "3\r\n" + good + "\r\n0\r\n\r\n"},
		badCreate{"two lengths", lastMessage("POST", path, "", "Content-Length: 13", "Content-Length: 2") + good},
		badCreate{"odd length", lastMessage("POST", path, "", "Content-Length: +13") + good},
		badCreate{"odd coding", lastMessage("POST", path, "", "Transfer-Encoding: gzip, chunked") + chunked(good)},
	)
}

// What cannot be labelled for certain is refused, and the engine never hears of it.
func TestEngineBadCreates(t *testing.T) {
	f := newFake(t, nil)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + f.host}})
	for _, b := range badCreates() {
		answer := clientOf(t, host).raw(b.message)
		if !regexp.MustCompile(`(?s)^HTTP/1\.1 4\d\d .*"message":"mcp-tether: `).MatchString(answer) {
			t.Errorf("%s: answered with %q", b.name, answer)
		}
		if got := f.Asked("create"); len(got) > 0 {
			t.Fatalf("%s: the engine was asked: %q", b.name, got)
		}
	}
	// The control: one of them, asked directly, and a good one.
	clientOf(t, f.host).raw(badCreates()[0].message)
	if len(f.Asked("create")) != 1 {
		t.Error("the engine does not hear what it is asked")
	}
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create?name=good", `{"Image":"a"}`))
	if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] != s.id() {
		t.Errorf("instead of a good one there is %+v", left)
	}
	s.end()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if !s.warned("refused") {
		t.Error("nobody says that creates were refused")
	}
}

// A create by another spelling, which the engine may or may not take for one, makes nothing without our label.
func TestEngineOddSpellings(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	mark := e.mark(t)
	body := fmt.Sprintf(`{"Image":%q,"Cmd":["boxed"],"Labels":{%q:%q},"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
	direct := 0
	for _, path := range []string{
		"/containers/create", "/v1.41/containers/create", "/v1.24/containers/create", "//containers/create", "/v1.41//containers/create", "/v1.41/containers/create/",
		"/v1.41/containers/%63reate", "/v1.41/%63ontainers/create", "/v1.41/containers%2Fcreate", "/%761.41/containers/create", "/./containers/create",
		"/x/../containers/create", "/v1.41/containers/./create", "http://docker/v1.41/containers/create", "http://docker//containers/create", "unix:/containers/create",
		"/V1.41/containers/create", "/v1.41/CONTAINERS/create", "/v1.41/containers/create;x=1", "/v1.41/containers/create?", "/v1.41/containers/create?name=", "/v1/containers/create",
		"/v01.41/containers/create", "/v1.041/containers/create", "/v1.41.0/containers/create", "/v.1.41/containers/create", "/v1.41/containers/create#x", "/v1.41/containers/create%00",
		"/v1.41/containers/create%20", "containers/create", "/v1.41/containers/create?%zz",
	} {
		for _, method := range []string{"POST", "post", "PUT"} {
			for _, text := range []string{
				lastMessage(method, path, body, "Content-Type: application/json"),
				lastMessage(method, path, "", "Content-Type: application/json", "Transfer-Encoding: chunked") + chunked(body),
				lastMessage(method, path, "", "content-type: application/json", fmt.Sprint("CONTENT-LENGTH:", len(body))) + body,
				lastMessage(method, path, "", "Content-Type: application/json", "Content-Length: 5", "Transfer-Encoding: chunked") + chunked(body),
			} {
				clientOf(t, e.host).raw(text)
				made := e.marked(t, mark)
				direct += len(made)
				e.remove(t, made...)
				answer := clientOf(t, host).raw(text)
				now := e.marked(t, mark)
				for _, b := range now {
					if b.Labels["mcp-tether.session"] != s.id() {
						t.Errorf("%s %s made a container without our label: %v", method, path, b.Labels)
					}
				}
				if len(now) != len(made) && !strings.Contains(answer, "mcp-tether: ") {
					t.Errorf("%s %s makes %d containers, and %d through the proxy: %s", method, path, len(made), len(now), answer)
				}
				e.remove(t, now...)
			}
		}
	}
	if direct < 10 {
		t.Errorf("only %d of the spellings make a container at all", direct)
	}
	s.end()
}

// Labels in any form that Go's decoder takes: the container has what it would have without us, and ours.
func TestEngineOddLabels(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	for _, labels := range []string{
		`"Labels":null`, `"Labels":{}`, `"labels":{"a":"1"}`, `"Labels":{"a":"1"},"labels":{"b":"2"},"LABELS":{"a":"3"}`, `"Labels":{"a":"1","a":"2"}`,
		`"Labels":{"a":"1"},"Labels":null`, `"Labels":null,"lABELS":{"a":"1"}`, `"\u004cabels":{"a":"1"}`, "\"Label\u017f\":{\"a\":\"1\"}", `"Label\u017f":{"a":"1"},"Labels":{"b":"1"}`,
		`"Labels":{"mcp-tether.session":"","mcp-tether":"x"}`, `"Labels":{"a":null}`, `"Labels":{"\u0000":"\ud800","ä":"</script>\u2028"}`, "\"Labels\" : \n{\t\"a\" :\r\n\"1\"\n}",
		`"Labels":{"long":"` + strings.Repeat("x", mib) + `"}`, `"Labelss":{"a":"1"},"Label":{"b":"2"}`, `"Config":{"Labels":{"a":"1"}}`,
	} {
		mark := e.mark(t)
		body := fmt.Sprintf(`{%s,"Image":%q,"lAbels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, labels, e.image(t), markLabel, mark)
		var got [2]string
		for i, h := range []string{e.host, host} {
			answer := clientOf(t, h).raw(lastMessage("POST", "/v1.41/containers/create", body, "Content-Type: application/json"))
			made := e.marked(t, mark)
			if len(made) != 1 {
				t.Fatalf("%.100s: %d containers were made: %s", labels, len(made), answer)
			}
			if i == 1 && made[0].Labels["mcp-tether.session"] != s.id() {
				t.Errorf("%.100s: not labelled: %v", labels, made[0].Labels)
			}
			for name := range made[0].Labels {
				if strings.HasPrefix(name, "mcp-tether.") {
					delete(made[0].Labels, name)
				}
			}
			text, err := json.Marshal(made[0].Labels)
			got[i] = fmt.Sprint(string(text), err)
			e.remove(t, made...)
		}
		if got[0] != got[1] {
			t.Errorf("%.100s: the container has %.500s, and through the proxy %.500s", labels, got[0], got[1])
		}
	}
	s.end()
}

// Three mebibytes arrive whole, in one piece or in chunks.
func TestEngineLongCreate(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	value := strings.Repeat("0123456789abcdef", 3*mib/16)
	for i, h := range []string{e.host, host, host} {
		mark := e.mark(t)
		body := fmt.Sprintf(`{"Env":["A=%s"],"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, value, e.image(t), markLabel, mark)
		text := lastMessage("POST", "/v1.41/containers/create", body, "Content-Type: application/json")
		if i == 2 {
			text = lastMessage("POST", "/v1.41/containers/create", "", "Content-Type: application/json", "Transfer-Encoding: chunked") + chunked(body)
		}
		answer := clientOf(t, h).raw(text)
		made := e.marked(t, mark)
		if len(made) != 1 {
			t.Fatalf("way %d: %d containers: %.500s", i, len(made), answer)
		}
		var seen struct{ Config struct{ Env []string } }
		e.do(t, http.MethodGet, "/containers/"+made[0].ID+"/json", nil, &seen)
		if len(seen.Config.Env) == 0 || seen.Config.Env[0] != "A="+value {
			t.Errorf("way %d: the value is another one", i)
		}
		e.remove(t, made...)
	}
	s.end()
}

// A client that goes away, at every point of a create, leaves no container behind, and breaks nothing for the others.
func TestEngineClientHangsUp(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	mark, bare := e.mark(t), e.mark(t)
	create := func(mark string) string {
		body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
		return message("POST", "/v1.41/containers/create", body, "Content-Type: application/json")
	}
	text := create(mark)
	var all sync.WaitGroup
	for cut := 1; cut <= len(text)+10; cut += 7 {
		c, reset := dialEngine(t, host), cut%2 == 0
		all.Go(func() {
			_, _ = io.WriteString(c, text[:min(cut, len(text))])
			if reset {
				_ = c.CloseWrite()
			}
			_ = c.Close()
		})
	}
	all.Wait()
	// The control: without us, what was asked for in full is there. Docker 29 abandons it if nobody waits for the answer.
	c := dialEngine(t, e.host)
	_, _ = io.WriteString(c, create(bare))
	_, _ = c.Read(make([]byte, 1))
	_ = c.Close()
	e.awaitCreated(t, bare)
	if got := clientOf(t, host).raw(lastMessage("GET", "/_ping", "")); !strings.HasSuffix(got, "OK") {
		t.Errorf("the next client is told %q", got)
	}
	s.end()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// awaitCreated returns when there is a container with the label, in any state.
func (e *engine) awaitCreated(t *testing.T, mark string) {
	t.Helper()
	testkit.Until(t, "a container", func() bool { return len(e.marked(t, mark)) > 0 })
}

// lostEngine is a DOCKER_HOST behind which there is no engine.
type lostEngine struct {
	name, host string
	env        []string
	// What a client reads, and what the log says, in part. Where a client reads nothing, the server's DOCKER_HOST is as it was.
	client, log string
}

// The server starts whatever its engine is, its client learns what is wrong, and the log says what is lost.
func TestEngineIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, dead := listenUnix(t)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	const cannot, not = "cannot reach the container engine", "containers will not end with this session"
	for _, c := range []lostEngine{
		{name: "no socket", host: "unix://" + dir + "/none", client: cannot, log: cannot},
		{name: "a dead socket", host: dead, client: cannot, log: cannot},
		{name: "a file", host: "unix://" + file, client: cannot, log: cannot},
		{name: "tcp, nobody listens", host: "tcp://127.0.0.1:1", client: cannot, log: cannot},
		{name: "ssh, nobody listens", host: "ssh://nobody@127.0.0.1:1", client: cannot, log: cannot},
		{name: "ssh without a client", host: "ssh://nobody@127.0.0.1:1", env: []string{"PATH=/nonexistent"}, log: not},
		{name: "no such scheme", host: "gopher://127.0.0.1", log: not},
		{name: "rubbish", host: "\x01 %%%", client: cannot, log: cannot},
		{name: "no such context", env: []string{"DOCKER_CONTEXT=nonsense"}, log: not},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testLostEngine(t, c)
		})
	}
}

func testLostEngine(t *testing.T, c lostEngine) {
	if c.client != "" && !strings.HasPrefix(c.host, "unix:") {
		needDockerClient(t) // which knows the way there
	}
	s, host := proxied(t, setup{env: append([]string{"DOCKER_HOST=" + c.host}, c.env...)})
	if c.client == "" {
		if host != c.host {
			t.Errorf("the server has DOCKER_HOST=%s", host)
		}
	} else if got := clientOf(t, host).raw(lastMessage("GET", "/_ping", "")); !strings.Contains(got, c.client) {
		t.Errorf("its client is told %q", got)
	}
	if got := s.ask(`{"id":1,"method":"ping"}`); !strings.Contains(got, "ping") {
		t.Errorf("the server says %q", got)
	}
	s.end()
	if !s.warned(c.log) {
		t.Errorf("nothing in the log about %q", c.log)
	}
}

// An engine that goes away takes nothing with it but its containers, and those are not forgotten.
func TestEngineDies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"unix", "tcp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			env := []string{"DOCKER_HOST=" + f.host}
			if name == "tcp" {
				needDockerClient(t)
				env = overTCP(t, &engine{sock: strings.TrimPrefix(f.host, "unix://")}, "")
			}
			s, host := proxied(t, setup{flags: []string{"--kill-timeout=1s"}, env: env})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			waiting := dialEngine(t, host)
			_, _ = io.WriteString(waiting, message("GET", "/_ping", ""))
			in := newLines(waiting)
			if got := in.answer("GET"); !strings.HasSuffix(got, "OK") {
				t.Fatalf("answered with %q", got)
			}
			f.die()
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
				t.Errorf("a client of the dead engine reads %q, %v", rest, err)
			}
			got := clientOf(t, host).raw(lastMessage("GET", "/_ping", ""))
			if name == "unix" && !strings.Contains(got, "cannot reach the container engine") {
				t.Errorf("the next one is told %q", got)
			}
			s.endLeaving()
		})
	}
}

// A server that does not end when it is asked to makes its first container in the grace period.
func TestEngineFirstClientAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	s := begin(t, setup{flags: []string{"--term-grace=20s"}, env: []string{"DOCKER_HOST=" + f.host}}, "serve,ignore-term")
	s.waitRecord()
	host := s.environment("DOCKER_HOST")
	s.signal(syscall.SIGTERM)
	s.awaitState(t, "ending")
	c, err := net.Dial("unix", strings.TrimPrefix(host, "unix://"))
	if err == nil {
		_, _ = io.WriteString(c, lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
		answer, _ := io.ReadAll(c)
		_ = c.Close()
		t.Errorf("connected, and answered with %.100q", answer)
	}
	if describe(s.server).state == "" {
		t.Error("the grace was over before the client came")
	}
	_ = syscall.Kill(s.server, syscall.SIGKILL)
	s.gone()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	s.endedWhole("signal")
}

// An engine that was started again is the session's engine as before.
func TestEngineComesBack(t *testing.T) {
	f := newFake(t, nil)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + f.host}})
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
	f.die()
	f.comeBack()
	if got := clientOf(t, host).raw(lastMessage("GET", "/_ping", "")); !strings.HasSuffix(got, "OK") {
		t.Errorf("answered with %q", got)
	}
	s.end()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A create that the engine takes its time for. It is waited for, but not for ever; what comes in time is removed. What the
// session has made before is removed in any case.
func TestEngineIsSlow(t *testing.T) {
	t.Parallel()
	for answers, limit := range map[string]string{"soon": engineTime, "late": "--kill-timeout=8s", "never": "--kill-timeout=2s"} {
		t.Run("answers "+answers, func(t *testing.T) {
			t.Parallel()
			asked, release := make(chan struct{}), make(chan struct{})
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/containers/create") && r.URL.Query().Get("name") == "slow" {
					close(asked)
					<-release
				}
				image := strings.Contains(r.URL.Path, "/images/")
				if image {
					_, _ = io.WriteString(w, `{"Config":{}}`)
				}
				return image
			})
			s, host := proxied(t, setup{flags: []string{limit}, env: []string{"DOCKER_HOST=" + f.host}})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			c := dialEngine(t, host)
			_, _ = io.WriteString(c, message("POST", "/v1.41/containers/create?name=slow", `{"Image":"a"}`))
			<-asked
			s.endSlow(f, answers, release, host)
			if left := f.Left(); len(left) > 0 || len(f.Asked("DELETE")) == 0 {
				t.Errorf("left: %+v, asked: %v", left, f.Asked(""))
			}
		})
	}
}

// endSlow ends a session while its engine works on a create, which it finishes when it is released.
func (s *session) endSlow(f *fakeEngine, answers string, release chan struct{}, host string) {
	s.t.Helper()
	if answers == "never" {
		s.t.Cleanup(func() { close(release) })
		s.endLeaving()
		return
	}
	s.closeStdin()
	// The gate is shut when another create is refused.
	refused := func() string {
		return clientOf(s.t, host).raw(lastMessage("POST", "/v1.41/networks/create", `{"Name":"a"}`))
	}
	testkit.Until(s.t, "another create refused", func() bool { return strings.HasPrefix(refused(), "HTTP/1.1 503 ") })
	if answers == "late" {
		testkit.Until(s.t, "the other container removed", func() bool { return len(f.Left()) == 0 })
	}
	close(release)
	wantExit(s.t, s.wait(), "exit 0")
	s.gone()
	if event := s.events("session ended"); len(event) != 1 || !bytes.Contains(event[0], []byte(`"containers":2,`)) {
		s.t.Errorf("closing event: %s, want one with two containers", event)
	}
}

// stubbornBox is a container that runs and ignores its stop signal.
func stubbornBox(w http.ResponseWriter, r *http.Request) bool {
	_, of, _ := strings.Cut(r.URL.Path, "/containers/")
	id, what, _ := strings.Cut(of, "/")
	switch what {
	case "json":
		_, _ = fmt.Fprintf(w, `{"Id":%q,"State":{"Status":"running","Running":true}}`, id)
	case "kill":
		w.WriteHeader(http.StatusNoContent)
	case "wait":
		<-r.Context().Done()
	default:
		return false
	}
	return true
}

// A container that ignores its stop signal uses up its grace period, and is removed then, also where that is as long as the
// engine gets.
func TestStubbornContainerIsRemoved(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("supervisor killed ", lost), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, stubbornBox)
			s, host := proxied(t, setup{flags: []string{"--container-grace=8s", "--kill-timeout=8s"}, env: []string{"DOCKER_HOST=" + f.host}})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			if left := f.Left(); len(left) != 1 {
				t.Fatalf("there is %+v, want one container", left)
			}
			if lost {
				s.ok(syscall.Kill(s.supervisor(), syscall.SIGKILL))
			} else {
				s.closeStdin()
			}
			s.gone()
			if left := f.Left(); len(left) > 0 {
				t.Errorf("left: %+v, asked: %v", left, f.Asked(""))
			}
		})
	}
}

// An engine that hears and says nothing holds up its client only.
func TestEngineSaysNothing(t *testing.T) {
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	for _, path := range []string{"", "GET /_ping", "POST /v1.41/containers/create"} {
		t.Run(path, func(t *testing.T) {
			heard := make(chan struct{}, 99)
			silent := rudeEngine(t, func(*net.UnixConn, string) { heard <- struct{}{}; <-hold })
			limit := engineTime
			if strings.HasPrefix(path, "POST") {
				limit = "--kill-timeout=1s" // used up
			}
			s, host := proxied(t, setup{flags: []string{limit}, env: []string{"DOCKER_HOST=" + silent}})
			if path == "" {
				s.end()
				return
			}
			method, path, _ := strings.Cut(path, " ")
			c := dialEngine(t, host)
			_, _ = io.WriteString(c, message(method, path, `{"Image":"a"}`))
			<-heard
			if method == "POST" {
				s.endLeaving()
			} else {
				s.end()
			}
		})
	}
}

// rubbish is what an engine may say that is no answer.
type rubbish struct {
	name, says string
	// settled says that a create with this answer makes nothing, or something whose id is known.
	settled bool
	// unread says that it cannot be read to its end.
	unread bool
}

func allRubbish() []rubbish {
	return []rubbish{
		{name: "nothing"},
		{name: "noise", says: "\x00\xff\xfe rubbish \r\n\r\n and more", unread: true},
		{name: "no end of line", says: strings.Repeat("x", 3*mib), unread: true},
		{name: "long head", says: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 3*mib) + "\r\n\r\n", unread: true},
		{name: "cut head", says: "HTTP/1.1 201 Created\r\nContent-Le", unread: true},
		{name: "cut body", says: "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{\"Id\":\"" + strings.Repeat("a", 64)},
		{name: "huge length", says: "HTTP/1.1 201 Created\r\nContent-Length: 99999999999999999999999\r\n\r\n{}", unread: true},
		{name: "negative length", says: "HTTP/1.1 201 Created\r\nContent-Length: -1\r\n\r\n{}", unread: true},
		{name: "not JSON", says: "HTTP/1.1 201 Created\r\nContent-Length: 7\r\nConnection: close\r\n\r\nrubbish"},
		{name: "no id", says: "HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"},
		{name: "bad chunk", says: "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", unread: true},
		{name: "huge chunk", says: "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}", unread: true},
		{name: "another protocol", says: "HTTP/1.1 101 Switching\r\nUpgrade: tcp\r\n\r\nstream", unread: true},
		{name: "only interim", says: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"},
		{name: "refused", says: "HTTP/1.1 500 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n", settled: true},
		{name: "two answers", says: "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", settled: true, unread: true},
		{name: "the way out", says: "HTTP/1.1 201 Created\r\nContent-Length: 41\r\nConnection: close\r\n\r\n{\"Id\":\"../../../networks/x?force=1#aaaa\"}", settled: false},
	}
}

// What an engine says reaches its client as it is, as far as it can be read. A session whose create got such an answer
// ends in time, and says that it does not know.
func TestEngineAnswersRubbish(t *testing.T) {
	t.Parallel()
	for i, what := range allRubbish() {
		t.Run(what.name, func(t *testing.T) {
			sample(t, 4, i)
			t.Parallel()
			f := rudeEngine(t, func(c *net.UnixConn, _ string) {
				_, _ = io.WriteString(c, what.says)
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			})
			limit := "--kill-timeout=500ms" // used up
			if what.settled {
				limit = engineTime
			}
			s, host := proxied(t, setup{flags: []string{limit}, env: []string{"DOCKER_HOST=" + f}})
			for _, text := range []string{lastMessage("GET", "/_ping", ""), lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`)} {
				want, got := clientOf(t, f).raw(text), clientOf(t, host).raw(text)
				switch {
				case !what.unread:
					wantSame(t, want, got)
				case !strings.Contains(got, "the container engine's response cannot be understood: ") && (len(got) >= len(want) || !strings.HasPrefix(want, got)):
					t.Errorf("the client is told %.300q", got)
				}
			}
			if what.settled {
				s.end()
			} else {
				s.endLeaving()
			}
		})
	}
}

// Two hundred clients at once, each of which asks twice, and none of which goes before all have their answer.
func TestEngineManyClients(t *testing.T) {
	const many = 200
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	clientOf(t, host).raw(lastMessage("GET", "/_ping", ""))
	before := openFDs(t, s.supervisor())
	wrong := make(chan string, 2*many)
	var first, all sync.WaitGroup
	first.Add(many)
	for range many {
		c := dialEngine(t, host)
		all.Go(func() {
			in := newLines(c)
			for i := range 2 {
				_, _ = io.WriteString(c, message("GET", "/_ping", ""))
				if got := in.answer("GET"); !strings.HasSuffix(got, "\r\n\r\nOK") {
					wrong <- got
				}
				if i == 0 {
					first.Done()
					first.Wait()
				}
			}
			_ = c.Close()
		})
	}
	all.Wait()
	close(wrong)
	for got := range wrong {
		t.Errorf("answered with %q", got)
	}
	testkit.Until(t, fmt.Sprintf("no more files open than the %d before", before), func() bool { return openFDs(t, s.supervisor()) <= before+2 })
	s.end()
}

// More clients than the wrapper may have files. Those that get in are served or told why not, the others when there is
// room.
func TestEngineTooManyClients(t *testing.T) {
	e := engineFor(t)
	s := startGateway(t).newSession()
	argv := s.wrap(polite(), node(s.dir, "serve")...)
	shell := append([]string{"/bin/sh", "-c", `ulimit -n 64 && exec "$@"`, "sh"}, argv...)
	s.spawn(setup{bare: true, env: []string{"DOCKER_HOST=" + e.host}}, shell...)
	s.waitReady()
	host := s.environment("DOCKER_HOST")
	var all []*net.UnixConn
	for range 100 {
		c := dialEngine(t, host)
		_, _ = io.WriteString(c, message("GET", "/_ping", ""))
		all = append(all, c)
	}
	for _, c := range all[:20] {
		if got := newLines(c).answer("GET"); !strings.HasSuffix(got, "OK") && !strings.Contains(got, "mcp-tether: ") {
			t.Errorf("one is told %q", got)
		}
		// If those before it were served, it may have to wait for their descriptors before it is accepted.
		_ = c.Close()
	}
	for _, c := range all[20:] {
		_ = c.Close()
	}
	testkit.Until(t, "a client is served once the others are gone", func() bool {
		return strings.HasSuffix(clientOf(t, host).raw(lastMessage("GET", "/_ping", "")), "OK")
	})
	s.end()
	if !s.warned("too many open files") {
		t.Error("nobody says that files were short")
	}
}

// oddPlace is a runtime directory in which no socket can be.
type oddPlace struct {
	name string
	long bool
	step string // of the fixture's verb world, on the runtime directory
}

// Where the session's own directory cannot have the socket, it is elsewhere: as private, and gone with the session.
func TestEngineSocketElsewhere(t *testing.T) {
	t.Parallel()
	for _, place := range []oddPlace{{name: "too long", long: true}, {name: "read-only", step: "readonly"}, {name: "no inodes", step: "noinodes"}} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/supervisor killed %v", place.name, lost), func(t *testing.T) {
				t.Parallel()
				testOddPlace(t, place, lost)
			})
		}
	}
}

func testOddPlace(t *testing.T, place oddPlace, lost bool) {
	e := engineFor(t)
	s := startGateway(t).newSession()
	if place.long {
		s.runtime = filepath.Join(s.runtime, strings.Repeat("long", 30))
		s.ok(os.Mkdir(s.runtime, 0o700))
	}
	argv := s.wrap(polite(), node(s.dir, "serve")...)
	if place.step != "" {
		needWorld(t)
		argv = inWorld(argv, place.step+"="+s.runtime)
	}
	s.spawn(setup{bare: true, env: []string{"DOCKER_HOST=" + e.host}}, argv...)
	s.waitReady()
	host := s.environment("DOCKER_HOST")
	path := strings.TrimPrefix(host, "unix://")
	if strings.HasPrefix(path, s.runtime) || len(path) > 107 {
		t.Fatalf("the server has DOCKER_HOST=%s", host)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	s.wantPrivate(path)
	mark := e.mark(t)
	body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
	answer := clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", body, "Content-Type: application/json"))
	if len(e.marked(t, mark)) != 1 {
		t.Errorf("answered with %q", answer)
	}
	if lost {
		s.ok(syscall.Kill(s.below(s.pid), syscall.SIGKILL))
		s.gone()
	} else {
		s.end()
	}
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is left", path)
	}
}

// wantPrivate expects a socket that only its owner can reach.
func (s *session) wantPrivate(path string) {
	s.t.Helper()
	for name, want := range map[string]uint32{path: unix.S_IFSOCK | 0o600, filepath.Dir(path): unix.S_IFDIR | 0o700} {
		var st unix.Stat_t
		s.ok(unix.Lstat(name, &st))
		if st.Mode != want || int(st.Uid) != os.Geteuid() {
			s.t.Errorf("%s has mode %o of user %d", name, st.Mode, st.Uid)
		}
	}
}

// What makes a client speak TLS to an engine is not for a client that speaks to us.
func TestEngineTLSVariables(t *testing.T) {
	e := engineFor(t)
	odd := []string{"DOCKER_TLS_VERIFY=1", "DOCKER_TLS=1", "DOCKER_CERT_PATH=/nonexistent"}
	s, host := proxied(t, setup{env: append([]string{"DOCKER_HOST=" + e.host}, odd...)})
	for _, name := range []string{"DOCKER_TLS_VERIFY", "DOCKER_TLS", "DOCKER_CERT_PATH", "DOCKER_CONTEXT"} {
		if got := s.environment(name); got != "" {
			t.Errorf("the server has %s=%s", name, got)
		}
	}
	r := route{t: t, name: "route1", host: host, cli: dockerPath(t)}
	if got := r.docker("version"); !strings.HasPrefix(got, "exit 0\n") {
		t.Errorf("its client says %s", got)
	}
	// The control: with them, it does not work.
	cmd := r.command("version")
	cmd.Env = append(cmd.Env, odd...)
	if got := r.finish(cmd); strings.HasPrefix(got, "exit 0\n") {
		t.Errorf("with all of %v it says %s", odd, got)
	}
	s.end()
}

// An engine behind tcp, TLS or ssh is as good as one behind a socket. Scenes that use all of a connection have the same
// result, what they leave is removed, and no helper stays.
func TestEngineElsewhere(t *testing.T) {
	e := engineFor(t)
	for i, cli := range dockers(t) {
		for name, over := range map[string]func(*testing.T, *engine, string) (env []string){"tcp": overTCP, "tls": overTLS, "ssh": overSSH} {
			if i > 0 && name != "ssh" {
				continue // ssh is the way with which a command has the most to do
			}
			t.Run(name+"/"+cli.version, func(t *testing.T) {
				t.Parallel()
				// The command of this version goes before all others.
				bin := t.TempDir()
				env := append(over(t, e, bin), "PATH="+bin)
				if name != "tcp" { // which needs no command at all
					ok(t, os.Symlink(cli.path, filepath.Join(bin, "docker")))
					env[len(env)-1] += ":" + os.Getenv("PATH")
				}
				testFarEngine(t, e, cli, name, env)
			})
		}
	}
}

func testFarEngine(t *testing.T, e *engine, cli dockerCLI, name string, env []string) {
	s, host := proxied(t, setup{flags: []string{engineTime}, env: env})
	for _, sc := range scenes() {
		switch sc.name {
		case "interactive", "half-close", "keep-alive":
			r := route{t: t, name: "route1", host: e.host, cli: cli.path, image: e.image(t), scene: name + "-" + sc.name + cli.version[:2]}
			want := sc.play(r)
			r.name, r.host = "route2", host
			wantSame(t, want, sc.play(r))
		}
	}
	mark := e.mark(t)
	r := route{t: t, name: "route3", host: host, cli: cli.path, image: e.image(t)}
	r.docker(r.run([]string{"-d", "--label", markLabel + "=" + mark}, "rest")...)
	if len(e.awaitRunning(t, mark, 1)) != 1 {
		t.Error("it does not run")
	}
	s.end()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Clients that send much at once, or what becomes much when decoded, cost no more memory than is set aside for all of
// them. A client that comes too late is told to try again, and the others are served.
func TestEngineMuchAtOnce(t *testing.T) {
	f := newFake(t, nil)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + f.host}})
	clientOf(t, host).raw(lastMessage("GET", "/_ping", ""))
	before := peakMemory(t, s.supervisor())
	create := func(size int) string {
		dense := strings.Repeat(`"a":"",`, size/7)
		return message("POST", "/v1.41/containers/create", `{"Image":"a","Labels":{`+dense[:len(dense)-1]+`}}`)
	}
	const many = 24
	fitting := sendAtOnce(t, host, many, create(3*mib))
	tooLong := sendAtOnce(t, host, 8, create(60*mib))
	if fitting["201"] == 0 || fitting["201"]+fitting["503"] != many || tooLong["413"] != 8 {
		t.Errorf("answers to %d of 3 MiB: %v, to 8 of 60 MiB: %v", many, fitting, tooLong)
	}
	// Heads that never end.
	for range many {
		_, _ = io.WriteString(dialEngine(t, host), "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", mib-99))
	}
	peak := peakMemory(t, s.supervisor()) - before
	if t.Logf("the supervisor held up to %d KiB more", peak); peak > 128*kib {
		t.Error("that is too much")
	}
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
}

// sendAtOnce has many clients send a message at the same time, all but its last byte, and counts the statuses they get.
func sendAtOnce(t *testing.T, host string, many int, text string) map[string]int {
	t.Helper()
	var first, all sync.WaitGroup
	first.Add(many)
	answers := make([]string, many)
	for i := range many {
		c := dialEngine(t, host)
		all.Go(func() {
			_, _ = io.WriteString(c, text[:len(text)-1])
			first.Done()
			first.Wait()
			_, _ = io.WriteString(c, text[len(text)-1:])
			_ = c.CloseWrite()
			answer, _ := io.ReadAll(c)
			answers[i] = string(answer)
		})
	}
	all.Wait()
	statuses := map[string]int{}
	for _, a := range answers {
		_, rest, _ := strings.Cut(a, " ")
		status, _, _ := strings.Cut(rest, " ")
		statuses[status]++
	}
	return statuses
}

// A client cannot fill the log: of many warnings some are there, and how many are not.
func TestEngineWarningsAreBounded(t *testing.T) {
	f := newFake(t, nil)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + f.host}})
	for i := range 200 {
		clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", []string{`{`, `{"Labels":7}`}[i%2]))
	}
	s.end()
	if n := bytes.Count(readFile(t, s.log), []byte("\n")); n > 50 {
		t.Errorf("%d lines in the log", n)
	}
	if !s.warned("were left out") {
		t.Error("nobody says that warnings were left out")
	}
}

// A container that its engine removes by itself (--rm) is not remembered for ever: the journal stays short.
func TestEngineJournalStaysShort(t *testing.T) {
	f := newFake(t, nil)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + f.host}})
	create := func(name string) {
		clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create?name="+name, `{"Image":"a"}`))
	}
	create("stays")
	const many = 800
	for range many {
		create("gone")
		f.Lock()
		maps.DeleteFunc(f.Have, func(_ string, x *testkit.Object) bool { return x.Name == "gone" })
		f.Unlock()
	}
	if left := f.Left(); len(left) != 1 {
		t.Fatalf("%d containers are there", len(left))
	}
	journal := filepath.Join(s.runtime, "mcp-tether", s.id()+".containers")
	testkit.Until(t, "a short journal", func() bool {
		clientOf(t, host).raw(lastMessage("GET", "/_ping", ""))
		return bytes.Count(readFile(t, journal), []byte("\n")) < many
	})
	if got := readFile(t, journal); !bytes.Contains(got, []byte(f.Left()[0].Labels["mcp-tether.request"])) {
		t.Error("what stays is forgotten")
	}
	s.end()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}
