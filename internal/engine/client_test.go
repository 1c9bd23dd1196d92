package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// answering returns a client of an engine that gives every request the same answer, and the requests that the engine
// saw. With the answer "" it never responds, and keeps the connection open until the client hangs up.
func answering(t *testing.T, answer string) (c Client, requests func() []string) {
	t.Helper()
	heads := make(chan string, 16)
	c.Dial = func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			head, err := ReadHead(bufio.NewReader(theirs))
			if err != nil {
				return
			}
			heads <- string(head)
			if answer == "" {
				_, _ = theirs.Read(make([]byte, 1))
				return
			}
			_, _ = io.WriteString(theirs, answer)
		}()
		return ours, nil
	}
	return c, func() (all []string) {
		for len(heads) > 0 {
			all = append(all, <-heads)
		}
		return all
	}
}

func answered(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// containers lists what the engine answers.
func containers(ctx context.Context, c Client) ([]Object, error) {
	return list[listedContainer](ctx, c, Container, "/containers/json")
}

// The lists are as docker 20.10 and podman 4.3 sent them.
func TestLists(t *testing.T) {
	at := time.Unix(1795242890, 0)
	others := func(kind Kind) func(context.Context, Client) ([]Object, error) {
		return func(ctx context.Context, c Client) ([]Object, error) { return list[listedOther](ctx, c, kind, "/x") }
	}
	for name, c := range map[string]struct {
		ask  func(context.Context, Client) ([]Object, error)
		body string
		want []Object
	}{
		"containers": {
			containers,
			`[{"Id":"a1","Names":["/other/alias","/me"],"Image":"img","ImageID":"sha256:1","Command":"x","Created":1795242890,"Labels":{"k":"v"},"State":"paused","Status":"Up (Paused)"},
			  {"Id":"b2","Names":null,"Image":"sha256:1","ImageID":"sha256:1","Created":1795242890,"Labels":null,"State":"created"}]`,
			[]Object{
				{Kind: Container, ID: "a1", Name: "me", Image: "img", State: "paused", Labels: map[string]string{"k": "v"}, Created: at},
				{Kind: Container, ID: "b2", Image: "sha256:1", State: "created", Created: at},
			},
		},
		"networks": {
			others(Network), `[{"Name":"n","Id":"d4","Created":"2026-11-21T06:34:50Z","Driver":"bridge","Containers":{},"Labels":{}}]`,
			[]Object{{Kind: Network, ID: "d4", Name: "n", Labels: map[string]string{}, Created: at.UTC()}},
		},
		"pods": {
			others(Pod), `[{"Id":"e5","Name":"p","Created":"2026-11-21T06:34:50Z","Status":"Degraded","InfraId":"f6","Containers":[{"Id":"f6"},{"Id":"a7"}],"Labels":null}]`,
			[]Object{{Kind: Pod, ID: "e5", Name: "p", State: "degraded", Created: at.UTC(), Infra: "f6", Members: []string{"f6", "a7"}}},
		},
		"none": {containers, `[]`, []Object{}},
		"null": {others(Network), `null`, []Object{}},
	} {
		cl, _ := answering(t, answered("200 OK", c.body))
		got, err := c.ask(t.Context(), cl)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	for state, runs := range map[string]bool{"running": true, "paused": true, "restarting": true, "degraded": true, "created": false, "exited": false} {
		if (&Object{State: state}).Running() != runs {
			t.Errorf("%s: running is %v", state, !runs)
		}
	}
}

// The engine is asked for one session, or for all.
func TestLabelledAsksForLabels(t *testing.T) {
	for session, filter := range map[string]string{"s": "%7B%22label%22%3A%5B%22mcp-tether.session%3Ds%22%5D%7D", "": "%7B%22label%22%3A%5B%22mcp-tether.session%22%5D%7D"} {
		c, requests := answering(t, answered("200 OK", `[]`))
		if _, err := c.Labelled(t.Context(), session); err != nil {
			t.Error(err)
		}
		want := []string{"/containers/json?all=1&filters=" + filter, libpod + "/pods/json?filters=" + filter, "/networks?filters=" + filter}
		for i, r := range requests() {
			if r != "GET "+want[i]+" HTTP/1.1\r\nHost: docker\r\nUser-Agent: mcp-tether\r\nConnection: close\r\n\r\n" {
				t.Errorf("%q: asked %q", session, r)
			}
		}
	}
}

// What the engine would remove with a container, though it may be an anonymous volume of another one.
func TestVolumesOfOthers(t *testing.T) {
	name := strings.Repeat("a", 64)
	const late, early = `200 OK|{"CreatedAt":"2026-11-21T06:34:50.5Z"}`, `200 OK|{"CreatedAt":"2026-11-21T06:34:49Z"}`
	for _, c := range []struct {
		host, volume string
		want         bool
	}{
		{`{}`, late, false},
		{`{"VolumesFrom":["c:ro"]}`, late, true},
		{`{"Binds":["data:/d"]}`, early, false},
		{`{"Binds":["/NAME:/d"]}`, early, false},
		{`{"Binds":["data:/d","NAME:/e:rw"]}`, "404 Not Found|{}", true}, // docker lists what was given only
		{`{"Binds":["NAME:/e:rw"]}`, early, true},
		{`{"Binds":["NAME:/e:rw"]}`, late, false}, // podman lists its own ones too
		{`{"Mounts":[{"Type":"volume","Source":"NAME"}]}`, "404 Not Found|{}", true},
		{`{"Mounts":[{"Type":"volume","Target":"/d"}]}`, early, false},
	} {
		cl := Client{Dial: func(ctx context.Context) (net.Conn, error) {
			inspected, _ := answering(t, answered("200 OK", `{"Id":"a","Created":"2026-11-21T06:34:50Z","HostConfig":`+strings.ReplaceAll(c.host, "NAME", name)+`}`))
			status, body, _ := strings.Cut(c.volume, "|")
			volume, _ := answering(t, answered(status, body))
			return either(ctx, inspected, volume)
		}}
		if got, err := cl.borrows(t.Context(), "a"); got != c.want || err != nil {
			t.Errorf("%s, %s: %v, %v", c.host, c.volume, got, err)
		}
	}
}

// either is a connection to one engine, or to the other for questions about volumes.
func either(ctx context.Context, one, other Client) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		head, err := ReadHead(bufio.NewReader(theirs))
		if err != nil {
			return
		}
		if bytes.Contains(head, []byte("/volumes/")) {
			one = other
		}
		up, err := one.Dial(ctx)
		if err != nil {
			return
		}
		defer up.Close()
		_, _ = up.Write(head)
		_, _ = io.Copy(theirs, up)
	}()
	return ours, nil
}

func TestDeeds(t *testing.T) {
	for want, do := range map[string]func(context.Context, Client) error{
		"POST /containers/a1/stop?t=1":                       func(ctx context.Context, c Client) error { return c.Stop(ctx, "a1") },
		"POST /containers/a1/kill?signal=SIGKILL":            func(ctx context.Context, c Client) error { return c.Kill(ctx, "a1") },
		"DELETE /v4.0.0/libpod/pods/a1?force=true&timeout=0": func(ctx context.Context, c Client) error { return c.RemovePod(ctx, "a1") },
		"DELETE /networks/a1":                                func(ctx context.Context, c Client) error { return c.RemoveNetwork(ctx, "a1") },
	} {
		for answer, result := range map[string]error{
			"HTTP/1.1 204 No Content\r\n\r\n":                                       nil,
			"HTTP/1.1 304 Not Modified\r\n\r\n":                                     nil,
			answered("404 Not Found", `{"message":"No such container: a1"}`):        errNotFound,
			answered("403 Forbidden", `{"cause":"c","message":"m","response":403}`): errRefused,
		} {
			c, requests := answering(t, answer)
			if err := do(t.Context(), c); !errors.Is(err, result) {
				t.Errorf("%s: %v, want %v", want, err, result)
			}
			if r := requests(); len(r) != 1 || !strings.HasPrefix(r[0], want+" HTTP/1.1\r\n") {
				t.Errorf("asked %q, want %s", r, want)
			}
		}
	}
}

// An id comes from a list, and must not lead to another path.
func TestOddIDsAreNotAskedFor(t *testing.T) {
	c, requests := answering(t, "HTTP/1.1 204 No Content\r\n\r\n")
	for _, id := range []string{"", ".", "..", "../networks/x", "a/../b", "a?force=1", "a b", "a\r\nX: y", "%2e", "é"} {
		for name, do := range map[string]func(context.Context, string) error{"remove": c.RemoveContainer, "network": c.RemoveNetwork, "pod": c.RemovePod, "stop": c.Stop} {
			if err := do(t.Context(), id); !errors.Is(err, errNotFound) {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
	}
	if r := requests(); len(r) != 0 {
		t.Errorf("asked %q", r)
	}
}

func TestAnswers(t *testing.T) {
	rubbish, gone := errBadResponse, ErrUnreachable
	for name, c := range map[string]struct {
		answer, want string
		err          error
	}{
		"length":              {answered("200 OK", "abc"), "abc", nil},
		"length, more behind": {answered("200 OK", "abc") + "def", "abc", nil},
		"none":                {"HTTP/1.1 200 OK\r\n\r\nto the end", "to the end", nil},
		"chunked":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00A;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", "abc0123456789", nil},
		"interim":             {"HTTP/1.1 102 Processing\r\n\r\n" + answered("200 OK", "abc"), "abc", nil},
		"empty":               {answered("201 Created", ""), "", nil},

		"hangs up":               {"\x00", "", gone},
		"hangs up in the head":   {"HTTP/1.1 200 OK\r\nContent", "", gone},
		"hangs up in the body":   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "", gone},
		"hangs up in a chunk":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "", gone},
		"another language":       {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "", rubbish},
		"switches protocols":     {"HTTP/1.1 101 UPGRADED\r\n\r\n", "", rubbish},
		"no size of a chunk":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\n\r\n", "", rubbish},
		"too long by its length": {"HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n", "", rubbish},
		"too long":               {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 65), "", rubbish},
		"too long in chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("20\r\n"+strings.Repeat("x", 32)+"\r\n", 3), "", rubbish},
		"gone, in words":         {answered("404 Not Found", "page not found\nat all"), "", errNotFound},
	} {
		body, err := readResponse(bufio.NewReader(strings.NewReader(strings.TrimPrefix(c.answer, "\x00"))), 64)
		if string(body) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
}

// An error quotes what the engine says, but no more than one line of it.
func TestErrorsQuoteTheEngine(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"no space left"}`:   "GET /networks: the engine says 500: no space left",
		"first line\nsecond":            "GET /networks: the engine says 500: first line",
		strings.Repeat("x", 400):        "GET /networks: the engine says 500: " + strings.Repeat("x", 300) + "...",
		`{"message":"` + "a\\nb" + `"}`: "GET /networks: the engine says 500: a",
	} {
		c, _ := answering(t, answered("500 Internal Server Error", body))
		if _, err := list[listedOther](t.Context(), c, Network, "/networks"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestJSONOfAnotherShape(t *testing.T) {
	for _, body := range []string{"", "{}", `[{"Id": 7}]`, `["a"]`, `[{"Created": "yesterday"}]`, "[] trailing"} {
		c, _ := answering(t, answered("200 OK", body))
		if got, err := containers(t.Context(), c); !errors.Is(err, errBadResponse) {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
}

// What is not read of a container may be long: text with braces, or an object for each of its ports.
func TestLongTextsAndManyPorts(t *testing.T) {
	ports := strings.Repeat(`{"PrivatePort":16384,"Type":"udp"},`, 40_000) + `{}`
	braces := strings.Repeat("{", 40_000)
	c, _ := answering(t, answered("200 OK", `[{"Id":"a1","Ports":[`+ports+`],"Labels":{"k":"`+braces+`"}},{"Id":"b2","Labels":{"k":"`+strings.Repeat(braces, 125)+`"}}]`))
	have, err := containers(t.Context(), c)
	if err != nil || len(have) != 2 || have[0].ID != "a1" || have[0].Labels["k"] != braces || have[1].ID != "b2" {
		t.Errorf("%d containers, %.200v", len(have), err)
	}
}

// An engine that takes a request and never answers does not hold up its client.
func TestContextEndsTheWait(t *testing.T) {
	c, _ := answering(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	dial := c.Dial
	c.Dial = func(ctx context.Context) (net.Conn, error) {
		defer cancel()
		return dial(ctx)
	}
	if _, err := containers(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c.Dial = func(context.Context) (net.Conn, error) {
		t.Error("dialled after the end")
		return nil, io.EOF
	}
	if _, err := containers(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	c.Dial = dial
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(time.Millisecond))
	defer cancel()
	if _, err := containers(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too late: %v", err)
	}
}

// FuzzAnswer compares what we read of an answer with net/http.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		answered("200 OK", "abc"), "HTTP/1.1 200 OK\r\n\r\nto the end", "HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readResponse(bufio.NewReader(bytes.NewReader(b)), 1<<20)
		if err != nil {
			return
		}
		theirs := bufio.NewReader(bytes.NewReader(b))
		want, err := http.ReadResponse(theirs, nil)
		for err == nil && want.StatusCode < 200 {
			want, err = http.ReadResponse(theirs, nil)
		}
		if err != nil || want.ProtoMinor == 0 {
			return // net/http is stricter than we are, or the answer is HTTP/1.0, which has no chunks
		}
		defer want.Body.Close()
		body, err := io.ReadAll(want.Body)
		if err == nil && !bytes.Equal(got, body) {
			t.Errorf("%q, net/http reads %q", got, body)
		}
	})
}
