package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// inspection is what the engine says of a container.
func inspection(id, name string, running bool, started string) string {
	return reply(200, fmt.Sprintf(`{"Id":%q,"Name":"/%s","State":{"Running":%t,"StartedAt":%q}}`, id, name, running, started))
}

func TestStartOfAContainerThatWasThere(t *testing.T) {
	const started = "2026-01-02T03:04:05.678900001Z"
	s := newScene(t, table(map[string]string{
		"GET /containers/old/json":           inspection("c1", "old", false, "0001-01-01T00:00:00Z"),
		"GET /containers/c1/json":            inspection("c1", "old", true, started),
		"POST /v1.41/containers/old/start":   reply(204, ""),
		"GET /containers/busy/json":          inspection("c2", "busy", true, started),
		"POST /containers/busy/restart":      reply(204, ""),
		"GET /containers/bad/json":           inspection("c3", "bad", false, started),
		"POST /containers/bad/start":         reply(500, "no"),
		"GET /containers/quick/json":         inspection("c4", "quick", false, started),
		"POST /containers/quick/start":       reply(204, ""),
		"GET /containers/odd/json":           reply(500, "no"),
		"GET /containers/other/alias/json":   inspection("c1", "old", false, "0001-01-01T00:00:00Z"), // a link of docker's
		"POST /containers/other/alias/start": reply(204, ""),
	}))
	c := s.client()
	for _, x := range []struct{ target, answer, notes string }{
		{"/v1.41/containers/old/start", reply(204, ""), "start container c1 old; started container c1 old " + started},
		{"/containers/busy/restart", reply(204, ""), ""},
		{"/containers/none/start", reply(404, `{"message":"no such thing"}`), ""},
		{"/containers/bad/start", reply(500, "no"), "start container c3 bad; kept container c3"},
		{"/containers/quick/start", reply(204, ""), "start container c4 quick; kept container c4"},
		{"/containers/other/alias/start", reply(204, ""), "start container c1 old; started container c1 old " + started},
		{"/containers/odd/start", "HTTP/1.1 502 Bad Gateway\r\n", ""},
	} {
		s.mu.Lock()
		s.notes = nil
		s.mu.Unlock()
		c.say("POST " + x.target + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
		c.hear(x.answer)
		s.expectNotes(x.notes)
	}
	s.Proxy.Shut(t.Context())
	c = s.client()
	c.say("POST /containers/bad/start HTTP/1.1\r\n\r\n")
	c.hear("HTTP/1.1 503 ")
}

// Podman starts what a container requires before it, also where the container is the session's own.
func TestStartOfWhatIsRequired(t *testing.T) {
	for _, answer := range []string{reply(204, ""), reply(500, "what requires it cannot be started")} {
		startRequiring(t, answer)
	}
}

func startRequiring(t *testing.T, toStart string) {
	const started = "2026-01-02T03:04:05Z"
	asked := map[string]int{}
	var mu sync.Mutex
	s := newScene(t, func(e *peer) {
		for {
			line, _, ok := e.hearRequest()
			if !ok {
				return
			}
			mu.Lock()
			asked[line]++
			again := asked[line] > 1
			mu.Unlock()
			answer, known := map[string]string{
				"POST /v4.0.0/libpod/containers/create":    reply(201, `{"Id":"own"}`),
				"POST /v4.0.0/libpod/containers/own/start": toStart,
				"GET /v4.0.0/libpod/containers/own/json":   reply(200, `{"Dependencies":["d1"]}`),
				"GET /v4.0.0/libpod/containers/d1/json":    reply(200, `{"Dependencies":["d2","d1"]}`),
				"GET /containers/own/json":                 inspection("own", "own", false, started),
				"GET /containers/d1/json":                  inspection("d1", "one", again, started),
				"GET /containers/d2/json":                  inspection("d2", "two", true, started),
			}[line]
			if !known {
				answer = reply(404, `{"message":"no such thing"}`)
			}
			e.say(answer)
		}
	})
	c := s.client()
	c.say(post("/v4.0.0/libpod/containers/create", `{}`))
	c.hear(reply(201, `{"Id":"own"}`))
	c.say("POST /v4.0.0/libpod/containers/own/start HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
	c.hear(toStart)
	s.expectNotes("create container r1; created container r1 own; start container d1 one; started container d1 one " + started)
}

// Podman makes a container of a checkpoint in an archive or an image, without labels of ours.
func TestRestoreThatMakesAContainer(t *testing.T) {
	const base = "/v4.0.0/libpod/containers/"
	s := newScene(t, table(map[string]string{
		"POST " + base + "import/restore?import=true": reply(200, `{"Id":"c1"}`),
		"POST " + base + "image/restore":              reply(200, `{"Id":"c2"}`),
		"POST " + base + "old/restore?import=false":   reply(200, `{"Id":"c3"}`),
		"GET /containers/import/json":                 inspection("c4", "import", true, "2026-01-02T03:04:05Z"),
		"GET /containers/old/json":                    inspection("c3", "old", false, "0001-01-01T00:00:00Z"),
		"GET /containers/c3/json":                     inspection("c3", "old", true, "2026-01-02T03:04:05Z"),
	}))
	c := s.client()
	for _, x := range []struct{ target, answer, notes string }{
		{"import/restore?import=true", reply(200, `{"Id":"c1"}`), "create container r1; created container c1; refused container r1"},
		{"image/restore", reply(200, `{"Id":"c2"}`), "create container r2; created container c2; refused container r2"},
		{"none/restore", reply(404, `{"message":"no such thing"}`), "create container r3; refused container r3"},
		{"old/restore?import=false", reply(200, `{"Id":"c3"}`), "start container c3 old; started container c3 old 2026-01-02T03:04:05Z"},
	} {
		s.mu.Lock()
		s.notes = nil
		s.mu.Unlock()
		c.say("POST " + base + x.target + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
		c.hear(x.answer)
		s.expectNotes(x.notes)
	}
}

// A container that the session resumes was started before. So the resume is noted at once, with the time of that start.
func TestResumeOfAContainerThatWasPaused(t *testing.T) {
	const then = "2026-01-02T03:04:05Z"
	paused := func(id string, is bool) string {
		return reply(200, fmt.Sprintf(`{"Id":%q,"Name":"/%s","State":{"Running":true,"Paused":%t,"StartedAt":%q}}`, id, id, is, then))
	}
	s := newScene(t, table(map[string]string{
		"GET /containers/a/json":                     paused("a", true),
		"POST /containers/a/unpause":                 reply(204, ""),
		"GET /containers/bad/json":                   paused("bad", true),
		"POST /v4.0.0/libpod/containers/bad/unpause": reply(500, "no"),
		"GET /containers/runs/json":                  paused("runs", false),
		"POST /containers/runs/unpause":              reply(409, "no"),
		"GET /v4.0.0/libpod/pods/p/json":             reply(200, `{"Id":"p","Containers":[{"Id":"a"},{"Id":"runs"}]}`),
		"POST /v4.0.0/libpod/pods/p/unpause":         reply(200, ""),
		"GET /containers/left/json":                  reply(404, "no"),
		"GET /v4.0.0/libpod/pods/q/json":             reply(200, `{"Id":"q","Containers":[{"Id":"left"},{"Id":"a"}]}`),
		"POST /v4.0.0/libpod/pods/q/unpause":         reply(200, ""),
	}))
	c := s.client()
	for _, x := range []struct{ target, answer, notes string }{
		{"/containers/a/unpause", reply(204, ""), "started container a a " + then + "; started container a a " + then},
		{"/v4.0.0/libpod/containers/bad/unpause", reply(500, "no"), "started container bad bad " + then + "; kept container bad"},
		{"/containers/runs/unpause", reply(409, "no"), ""},
		{"/v4.0.0/libpod/pods/p/unpause", reply(200, ""), "started container a a " + then + "; started container a a " + then},
		{"/v4.0.0/libpod/pods/q/unpause", reply(200, ""), "started container a a " + then + "; started container a a " + then},
	} {
		s.mu.Lock()
		s.notes = nil
		s.mu.Unlock()
		c.say("POST " + x.target + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
		c.hear(x.answer)
		s.expectNotes(x.notes)
	}
}

// Two clients may start or resume a container at the same time. The engine refuses one of them, which takes back no note of
// the other, in whichever order the outcomes come. What neither has started is another's.
func TestStartByTwoClients(t *testing.T) {
	for _, x := range []struct {
		verb, before, after string
		first, second       int // how the engine answers
		want                int // containers that the session has started
	}{
		{"unpause", "paused", "running", 204, 500, 1},
		{"unpause", "paused", "running", 500, 204, 1},
		{"unpause", "paused", "paused", 500, 204, 1}, // and paused again
		{"unpause", "paused", "paused", 500, 500, 0},
		{"unpause", "paused", "running", 500, 500, 0},
		{"start", "exited", "running", 204, 304, 1},
		{"start", "exited", "running", 304, 204, 1},
		{"start", "exited", "exited", 500, 500, 0},
		{"start", "exited", "running", 304, 304, 0},
	} {
		asked, may := make(chan int, 2), [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		var mu sync.Mutex
		requests := 0
		s := newScene(t, func(e *peer) {
			for {
				line, _, ok := e.hearRequest()
				mu.Lock()
				state, n := x.before, requests
				switch {
				case strings.HasPrefix(line, "POST "):
					requests++
				case n == 2:
					state = x.after
				}
				mu.Unlock()
				switch {
				case !ok:
					return
				case line == "POST /containers/a/"+x.verb:
					asked <- n
					<-may[n]
					e.say(reply([]int{x.first, x.second}[n], ""))
				case line == "GET /containers/a/json":
					e.say(reply(200, fmt.Sprintf(`{"Id":"a","State":{"Running":%t,"Paused":%t,"StartedAt":"2026-01-02T03:04:05Z"}}`, state != "exited", state == "paused")))
				default:
					e.say(reply(404, ""))
				}
			}
		})
		first, second := s.client(), s.client()
		for _, c := range []*peer{first, second} {
			c.say("POST /containers/a/" + x.verb + " HTTP/1.1\r\n\r\n")
			<-asked
		}
		close(may[0])
		first.hear(reply(x.first, ""))
		close(may[1])
		second.hear(reply(x.second, ""))
		if got := s.ledger().Started(); len(got) != x.want {
			t.Errorf("%+v: started %+v by %s", x, got, s.noted())
		}
	}
}

// A start whose outcome is never known is over when its connection has ended. The refusal of a later one is that of a
// single start: the container runs because of another's.
func TestStartAfterOneWithoutAnOutcome(t *testing.T) {
	const now = "2026-01-02T03:04:06Z"
	var mu sync.Mutex
	requests := 0
	s := newScene(t, func(e *peer) {
		for {
			line, _, ok := e.hearRequest()
			mu.Lock()
			if strings.HasPrefix(line, "POST ") {
				requests++
			}
			n := requests
			mu.Unlock()
			switch {
			case !ok, n == 1 && strings.HasPrefix(line, "POST "):
				return
			case line == "POST /containers/c1/start":
				e.say(reply(304, ""))
			case line == "GET /containers/c1/json":
				e.say(inspection("c1", "", n == 2, now))
			default:
				e.say(reply(404, ""))
			}
		}
	})
	first, second := s.client(), s.client()
	first.say("POST /containers/c1/start HTTP/1.1\r\n\r\n")
	first.hearEnd()
	testkit.Until(t, "the start is over", func() bool {
		_, open := s.objects.asking.Load("c1")
		return !open
	})
	second.say("POST /containers/c1/start HTTP/1.1\r\n\r\n")
	second.hear(reply(304, ""))
	s.expectNotes("start container c1; start container c1; kept container c1")
}

// The time of a container's start proves whose start it was. So a restart of what the session started is noted anew,
// even if it fails.
func TestRestartOfWhatTheSessionStarted(t *testing.T) {
	const then, now = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	inspections := []string{
		inspection("c1", "", false, then), inspection("c1", "", true, then), // start
		inspection("c1", "", true, then),                                  // start of a running one
		inspection("c1", "", true, then), inspection("c1", "", true, now), // restart
		inspection("c1", "", true, now), inspection("c1", "", true, now), // restart that fails
		inspection("c1", "", true, now), inspection("c1", "", false, now), // restart that fails after the stop
	}
	answers := []string{reply(204, ""), reply(304, ""), reply(204, ""), reply(500, ""), reply(500, "")}
	var mu sync.Mutex
	next := func(from *[]string) string {
		mu.Lock()
		defer mu.Unlock()
		first := (*from)[0]
		*from = (*from)[1:]
		return first
	}
	s := newScene(t, func(c *peer) {
		for {
			line, _, ok := c.hearRequest()
			switch {
			case !ok:
				return
			case line == "GET /containers/c1/json":
				c.say(next(&inspections))
			case strings.HasPrefix(line, "GET "):
				c.say(reply(404, ""))
			default:
				c.say(next(&answers))
			}
		}
	})
	c := s.client()
	for _, verb := range []string{"start 204", "start 304", "restart 204", "restart 500", "restart 500"} {
		verb, status, _ := strings.Cut(verb, " ")
		c.say("POST /containers/c1/" + verb + " HTTP/1.1\r\n\r\n")
		c.hear("HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n\r\n")
	}
	const start, started = "start container c1; ", "started container c1 "
	s.expectNotes(start + started + then + "; " + start + started + now + "; " + start + started + now + "; " + start + "kept container c1")
}

// What counts as started by the session is what still runs from that start: others may have started, or paused and resumed, a
// container since. A container that the session has resumed, and then restarted, is the session's to stop.
func TestRestartOfWhatWasStartedBefore(t *testing.T) {
	const then, now, late = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z", "2026-01-02T03:04:07Z"
	state := func(state, started string, restarts int) string {
		return reply(200, fmt.Sprintf(`{"Id":"a","RestartCount":%d,"State":{"Running":%t,"Paused":%t,"StartedAt":%q}}`, restarts, state != "exited", state == "paused", started))
	}
	stopped, runs, paused := state("exited", then, 0), state("running", then, 0), state("paused", then, 0)
	for name, x := range map[string]struct {
		verbs   string   // each with the status of the engine's answer
		inspect []string // the engine's answers to inspections
		want    string   // when the session started it
	}{
		"others have started it since": {"start 204, restart 204", []string{stopped, runs, state("running", now, 0), state("running", late, 0)}, then},
		"its policy has started it since": {
			"start 204, restart 204", []string{stopped, runs, state("running", now, 2), state("running", late, 0)}, late,
		},
		"a start was refused": {"start 204, start 500, restart 204", []string{stopped, runs, stopped, runs, runs}, ""},
		"others have started and paused it since": {
			"start 204, unpause 204", []string{stopped, runs, state("paused", now, 0)}, now + " paused",
		},
		"paused":                                 {"start 204, unpause 204", []string{stopped, runs, paused}, then},
		"resumed":                                {"unpause 204, restart 204", []string{paused, runs, state("running", now, 0)}, now},
		"resumed, not restarted":                 {"unpause 204, restart 500", []string{paused, runs, runs}, then + " paused"},
		"not resumed":                            {"unpause 500, restart 204", []string{paused, runs, state("running", now, 0)}, ""},
		"resumed, paused and resumed":            {"unpause 204, unpause 204", []string{paused, paused}, then + " paused"},
		"resumed, restarted, paused and resumed": {"unpause 204, restart 204, unpause 204", []string{paused, runs, state("running", now, 0), state("paused", now, 0)}, now},
		"perhaps resumed":                        {"unpause, restart 204", []string{paused, runs, state("running", now, 0)}, now},
		"perhaps resumed, not restarted":         {"unpause, restart 500", []string{paused, runs, runs}, then + " paused"},
		"perhaps resumed, then by others":        {"unpause, restart 204", []string{paused, state("running", now, 0), state("running", late, 0)}, then + " paused"},
		"resumed by a pod that failed":           {"pod-unpause 500, restart 204", []string{paused, runs, runs, state("running", now, 0)}, now},
		"not resumed by a pod that failed":       {"pod-unpause 500, restart 204", []string{paused, paused, runs, state("running", now, 0)}, ""},
	} {
		s := newScene(t, inspections(x.inspect))
		c := s.client()
		for verb := range strings.SplitSeq(x.verbs, ", ") {
			verb, status, answered := strings.Cut(verb, " ")
			target := "/containers/a/" + verb
			if pod, is := strings.CutPrefix(verb, "pod-"); is {
				target = "/v4.0.0/libpod/pods/p/" + pod
			}
			c.say("POST " + target + "?answer=" + status + " HTTP/1.1\r\n\r\n")
			if !answered {
				c.hearEnd()
				c = s.client()
				continue
			}
			c.hear("HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n\r\n")
		}
		got := ""
		for _, start := range s.ledger().Started() {
			got = start.At.Format(time.RFC3339)
			if start.Paused {
				got += " paused"
			}
		}
		if got != x.want {
			t.Errorf("%s: started %q by %s, instead of %q", name, got, s.noted(), x.want)
		}
	}
}

// inspections returns an engine that answers inspections in this order, and each POST as its query says, or not at all. Its
// pod has the same container.
func inspections(answers []string) func(*peer) {
	var mu sync.Mutex
	return func(e *peer) {
		for {
			line, _, ok := e.hearRequest()
			status, err := strconv.Atoi(line[strings.LastIndex(line, "=")+1:])
			answer := reply(status, "")
			mu.Lock()
			switch {
			case strings.HasPrefix(line, "GET /containers/a/json") && len(answers) > 0:
				answer, answers = answers[0], answers[1:]
			case line == "GET /v4.0.0/libpod/pods/p/json":
				answer = reply(200, `{"Id":"p","Containers":[{"Id":"a"}]}`)
			case strings.HasSuffix(line, "?answer="):
				ok = false
			case err != nil:
				answer = reply(404, "")
			}
			mu.Unlock()
			if !ok {
				return
			}
			e.say(answer)
		}
	}
}

func TestOnlyWhatIsAttached(t *testing.T) {
	s := newScene(t, table(map[string]string{
		"POST /containers/create":           reply(201, `{"Id":"c1"}`),
		"POST /networks/create":             reply(201, `{"Id":"n1"}`),
		"POST /libpod/play/kube":            reply(200, `{"Pods":[{"ID":"p1"}]}`),
		"GET /containers/left/json":         inspection("abc1", "left", false, "0001-01-01T00:00:00Z"),
		"POST /containers/left/start":       reply(204, ""),
		"GET /containers/old/json":          inspection("abc2", "old", false, "0001-01-01T00:00:00Z"),
		"GET /containers/abc2/json":         inspection("abc2", "old", true, "2026-01-01T00:00:00Z"),
		"POST /containers/abc2/attach":      reply(200, ""),
		"POST /containers/old/start":        reply(204, ""),
		"POST /v1.41/containers/create?x=y": reply(201, `{"Id":"c2"}`),
	}), func(p *Proxy) { p.Attached = true })
	c := s.client()
	for _, x := range []struct{ target, object, answer string }{
		{"/containers/create", `{"Labels":{}}`, reply(201, `{"Id":"c1"}`)},
		{"/networks/create", `{}`, reply(201, `{"Id":"n1"}`)},
		{"/libpod/play/kube", `{}`, reply(200, `{"Pods":[{"ID":"p1"}]}`)},
		{"/containers/left/start", ``, reply(204, "")},
		{"/containers/abc2/attach", ``, reply(200, "")},
		{"/containers/old/start", ``, reply(204, "")},
		{"/v1.41/containers/create?x=y", `{"AttachStdout":true}`, reply(201, `{"Id":"c2"}`)},
	} {
		c.say(post(x.target, x.object))
		c.hear(x.answer)
	}
	s.expectNotes("start container abc2 old; started container abc2 old 2026-01-01T00:00:00Z; create container r1; created container r1 c2")
}
