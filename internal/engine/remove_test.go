package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// labelled is a thing that session s has made now.
func labelled(x testkit.Object) *testkit.Object {
	x.Created = time.Now()
	x.Labels = map[string]string{LabelSession: "s", LabelCreated: x.Created.UTC().Format(time.RFC3339Nano)}
	return &x
}

// strange is a thing of somebody else's.
func strange(x testkit.Object) *testkit.Object {
	x.Created = time.Now()
	return &x
}

func clientOf(t *testing.T, e *testkit.Engine) Client {
	t.Helper()
	at, err := EndpointAt(e.Listen(t))
	if err != nil {
		t.Fatal(err)
	}
	return Client{Dial: at.Dial}
}

// seen owns what is labelled, and its process lives.
func seen(ids ...string) Owner {
	o := Owner{Session: "s", Made: map[string]bool{}}
	for _, id := range ids {
		o.Made[id] = true
	}
	return o
}

func remove(t *testing.T, e *testkit.Engine, o Owner, limit time.Duration) (left string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err = Remove(ctx, clientOf(t, e), o, 20*time.Millisecond)
	var ids []string
	e.Lock()
	defer e.Unlock()
	for id := range e.Have {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " "), err
}

func TestRemoveAsksThenForces(t *testing.T) {
	e := &testkit.Engine{Have: map[string]*testkit.Object{
		"polite":   labelled(testkit.Object{Running: true}),
		"stubborn": labelled(testkit.Object{Running: true, Ignores: true}),
		"paused":   labelled(testkit.Object{Running: true, Paused: true}),
		"created":  labelled(testkit.Object{}),
		"borrows":  labelled(testkit.Object{VolumesFrom: []string{"x"}}),
		"others":   strange(testkit.Object{Running: true}),
	}}
	left, err := remove(t, e, seen(), testkit.Patience)
	if left != "others" || err != nil {
		t.Fatalf("left: %s, %v", left, err)
	}
	for id, want := range map[string]string{
		"polite": "POST stop?t=1, DELETE ?force=1&v=1", "stubborn": "POST stop?t=1, POST kill?signal=SIGKILL, DELETE ?force=1&v=1",
		"paused": "POST stop?t=1, DELETE ?force=1&v=1", "created": "DELETE ?force=1&v=1", "borrows": "DELETE ?force=1", "others": "",
	} {
		var did []string
		for _, d := range e.Did {
			if method, what, ok := strings.Cut(d, " /containers/"+id); ok {
				did = append(did, method+" "+strings.TrimPrefix(what, "/"))
			}
		}
		if got := strings.Join(did, ", "); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// What nobody saw made is proven by its time, and what has another time stays.
func TestRemoveByTime(t *testing.T) {
	old := labelled(testkit.Object{})
	old.Created = old.Created.Add(-time.Minute)
	e := func() *testkit.Engine {
		late := *old
		return &testkit.Engine{Have: map[string]*testkit.Object{"new": labelled(testkit.Object{}), "old": &late}}
	}
	left, err := remove(t, e(), Owner{Session: "s"}, testkit.Patience)
	if left != "old" || !errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), "container old: not removed: it carries") {
		t.Errorf("a dead session: left %s, %v", left, err)
	}
	// The living one knows that it is a copy.
	if left, err = remove(t, e(), seen(), testkit.Patience); left != "old" || err != nil {
		t.Errorf("a living session: left %s, %v", left, err)
	}
	if left, err = remove(t, e(), seen("old"), testkit.Patience); left != "" || err != nil {
		t.Errorf("a living session that made it: left %s, %v", left, err)
	}
}

// The engine may be carrying out a create whose client, and with it the supervisor, was killed.
func TestRemoveWaitsForLateCreates(t *testing.T) {
	for dead, want := range map[bool]string{true: "", false: "late"} {
		e := &testkit.Engine{Have: map[string]*testkit.Object{}}
		o := seen()
		if dead {
			o.Made = nil
		}
		late := make(chan struct{})
		time.AfterFunc(300*time.Millisecond, func() {
			e.Lock()
			defer e.Unlock()
			e.Have["late"] = labelled(testkit.Object{})
			close(late)
		})
		_, err := remove(t, e, o, testkit.Patience)
		<-late
		if left := e.Left(); (len(left) == 0) != (want == "") || err != nil {
			t.Errorf("dead: %v, left: %v, %v", dead, left, err)
		}
	}
}

func TestRemoveNetworks(t *testing.T) {
	e := &testkit.Engine{Have: map[string]*testkit.Object{
		"free": labelled(testkit.Object{Network: true}), "own": labelled(testkit.Object{Network: true}), "used": labelled(testkit.Object{Network: true, Name: "net"}),
		"a": labelled(testkit.Object{In: "own"}), "b": strange(testkit.Object{In: "used"}), "theirs": strange(testkit.Object{Network: true}),
	}}
	began := time.Now()
	left, err := remove(t, e, seen(), testkit.Patience)
	if left != "b theirs used" || err == nil || !strings.Contains(err.Error(), "network net: a container that is not the session's is in it: b") {
		t.Errorf("left %s, %v", left, err)
	}
	if took := time.Since(began); took > testkit.Patience/2 {
		t.Errorf("it took %v to give up", took)
	}
}

// pods answers for podman's pods, as long as they are there.
func pods(list string) (takes func(http.ResponseWriter, *http.Request) bool, removed *[]string) {
	removed = new([]string)
	return func(w http.ResponseWriter, r *http.Request) bool {
		id, isPod := strings.CutPrefix(r.URL.Path, "/v4.0.0/libpod/pods/")
		switch {
		case isPod && r.Method == http.MethodDelete:
			*removed, list = append(*removed, id), "[]"
		case isPod:
			_, _ = fmt.Fprint(w, list)
		}
		return isPod
	}, removed
}

// A pod's own container goes with it, and the pod goes when nothing of others is in it.
func TestRemovePods(t *testing.T) {
	at := time.Now().UTC().Format(time.RFC3339Nano)
	const pod = `[{"Id":"pod","Name":"p","Created":"%s","InfraId":"infra","Labels":{"mcp-tether.session":"s","mcp-tether.created":"%s"},"Containers":[{"Id":"infra"},{"Id":"%s"}]}]`
	for other, shared := range map[string]bool{"own": false, "theirs": true} {
		takes, removed := pods(fmt.Sprintf(pod, at, at, other))
		e := &testkit.Engine{Takes: takes, Have: map[string]*testkit.Object{
			"infra": labelled(testkit.Object{Running: true}), "own": labelled(testkit.Object{}), "theirs": strange(testkit.Object{}),
		}}
		_, err := remove(t, e, seen(), 5*time.Second)
		if got := len(e.Asked("DELETE /containers/infra")); got > 0 && shared {
			t.Errorf("%s: the pod's own container was removed", other)
		}
		if shared && (err == nil || !strings.Contains(err.Error(), "pod p: a container that is not the session's is in it: theirs") || len(*removed) > 0) {
			t.Errorf("%s: removed %v, %v", other, *removed, err)
		}
		if !shared && len(*removed) == 0 {
			t.Errorf("%s: the pod is left, %v", other, err)
		}
	}
}

func TestRemoveNamesWhatIsLeft(t *testing.T) {
	for status, final := range map[int]bool{http.StatusInternalServerError: false, http.StatusForbidden: true} {
		e := &testkit.Engine{
			Have: map[string]*testkit.Object{"a": labelled(testkit.Object{Name: "me"})},
			Takes: func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodDelete {
					http.Error(w, `{"message":"device or resource busy"}`, status)
				}
				return r.Method == http.MethodDelete
			},
		}
		began := time.Now()
		_, err := remove(t, e, seen(), 2*time.Second)
		if err == nil || !strings.HasPrefix(err.Error(), "containers of session s may be left: container me: ") || !strings.Contains(err.Error(), "resource busy") {
			t.Errorf("%d: %v", status, err)
		}
		if took := time.Since(began); (took < 1900*time.Millisecond) != final {
			t.Errorf("%d: tried for %v", status, took)
		}
	}
}

// A filter in front of the engine may let only containers pass.
func TestRemoveBehindAFilter(t *testing.T) {
	e := &testkit.Engine{
		Have: map[string]*testkit.Object{"a": labelled(testkit.Object{})},
		Takes: func(w http.ResponseWriter, r *http.Request) bool {
			refused := !strings.HasPrefix(r.URL.Path, "/containers/")
			if refused {
				http.Error(w, "no", http.StatusForbidden)
			}
			return refused
		},
	}
	if left, err := remove(t, e, seen(), testkit.Patience); left != "" || err != nil {
		t.Errorf("left %s, %v", left, err)
	}
}

// A filter that leaves out what it does not know must not make others' containers ours.
func TestRemoveWhereTheFilterOfAListIsIgnored(t *testing.T) {
	other := labelled(testkit.Object{})
	other.Labels[LabelSession] = "t"
	e := &testkit.Engine{Have: map[string]*testkit.Object{"a": labelled(testkit.Object{}), "b": other, "c": strange(testkit.Object{})}}
	e.Takes = func(w http.ResponseWriter, r *http.Request) bool {
		if q := r.URL.Query(); q.Has("filters") && strings.HasSuffix(r.URL.Path, "/containers/json") {
			r.URL.RawQuery, r.Form = "all=1", nil
			e.ServeHTTP(w, r)
			return true
		}
		return false
	}
	if left, err := remove(t, e, seen(), testkit.Patience); left != "b c" || err != nil {
		t.Errorf("left %s, %v", left, err)
	}
}

// Where no process listens, waiting is of no use. A busy engine is waited for.
func TestRemoveWithoutAnEngine(t *testing.T) {
	for why, soon := range map[error]bool{syscall.ECONNREFUSED: true, syscall.EMFILE: false} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		began := time.Now()
		_, err := Remove(ctx, Client{Dial: func(context.Context) (net.Conn, error) { return nil, why }}, seen(), 0)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "may be left") {
			t.Errorf("%v: %v", why, err)
		}
		if took := time.Since(began); (took < 400*time.Millisecond) != soon {
			t.Errorf("%v: it took %v", why, took)
		}
	}
}

func TestRemoveMany(t *testing.T) {
	e := &testkit.Engine{Have: map[string]*testkit.Object{}}
	for i := range 100 {
		e.Have[fmt.Sprint("c", i)] = labelled(testkit.Object{Running: true, Ignores: i%2 == 0})
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	all, err := Remove(ctx, clientOf(t, e), seen(), 10*time.Millisecond)
	if len(all) != 100 || err != nil || len(e.Left()) != 0 {
		t.Errorf("%d ended, %d left, %v", len(all), len(e.Left()), err)
	}
}
