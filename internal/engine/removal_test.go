package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// fake is an engine whose answers a test may replace.
type fake struct {
	Client
	testkit.Engine
	// odd answers in place of the engine, if it returns true.
	odd   func(w http.ResponseWriter, r *http.Request) bool
	count func(path string) // of each DELETE
	ask   func()            // at each request
}

// newFake gives objects without labels those of request r-ID.
func newFake(t *testing.T, have map[string]*testkit.Object) *fake {
	t.Helper()
	f := &fake{Engine: testkit.Engine{Have: have}}
	for id, x := range have {
		if x.Labels == nil {
			x.Labels = map[string]string{LabelRequest: "r-" + id}
		}
	}
	f.Takes = f.takes
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.Dial = func() (net.Conn, error) { return net.Dial("tcp", s.Listener.Addr().String()) }
	return f
}

// secondDelete returns a channel that is closed when each of some containers has got its second DELETE. By then the
// answer to the first one has arrived.
func (f *fake) secondDelete(ids ...string) <-chan struct{} {
	done, count := make(chan struct{}), map[string]int{}
	f.count = func(path string) {
		count[strings.TrimPrefix(path, "/containers/")]++
		if !slices.ContainsFunc(ids, func(id string) bool { return count[id] < 2 }) {
			f.count = nil
			close(done)
		}
	}
	return done
}

func (f *fake) takes(w http.ResponseWriter, r *http.Request) bool {
	f.Lock()
	odd := f.odd
	if f.ask != nil {
		f.ask()
	}
	if r.Method == http.MethodDelete && f.count != nil {
		f.count(r.URL.Path)
	}
	f.Unlock()
	return odd != nil && odd(w, r)
}

// deeds are what the engine was asked to do, sorted.
func (f *fake) deeds() []string {
	f.Lock()
	defer f.Unlock()
	return slices.Sorted(slices.Values(f.Did))
}

func (f *fake) be(odd func(w http.ResponseWriter, r *http.Request) bool) {
	f.Lock()
	defer f.Unlock()
	f.odd = odd
}

// recorded is the claim of a session's own process on containers by their ids.
func recorded(ids ...string) Claim {
	c := Claim{Session: "s", Complete: true, TrustIDs: true}
	for _, id := range ids {
		c.Ledger.Add(createdNote(Container, "r-"+id, id))
	}
	return c
}

// soon returns a context with a timeout that the test must not need.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// enough is the number of requests after which an engine has answered a first look.
const enough = 5

// asked returns a context that is done at the nth request to the engine, counted from now.
func (f *fake) asked(t *testing.T, n int) context.Context {
	ctx, cancel := context.WithCancel(soon(t))
	f.Lock()
	defer f.Unlock()
	f.ask = func() {
		if n--; n == 0 {
			cancel()
		}
	}
	return ctx
}

func TestEndAsksThenForces(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{
		"a": {Running: true}, "b": {Running: true, Ignores: true, StopSignal: "SIGQUIT"}, "c": {}, "d": {Running: true, Paused: true}, "z": {Running: true},
	})
	f.be(func(_ http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/wait") && !strings.HasPrefix(r.URL.Path, "/containers/b/") // the others have ended
	})
	stubborn, err := recorded("b").End(soon(t), f.Client, time.Millisecond)
	if err != nil {
		t.Error(err)
	}
	ended, err := recorded("a", "c", "d", "never there").End(soon(t), f.Client, testkit.Patience)
	if ended = append(ended, stubborn...); err != nil || len(ended) != 4 || slices.ContainsFunc(ended, func(r Result) bool { return !r.Done || r.Err != nil }) {
		t.Errorf("%+v, %v", ended, err)
	}
	want := []string{
		"DELETE /containers/a?force=1&v=1", "DELETE /containers/b?force=1&v=1", "DELETE /containers/c?force=1&v=1", "DELETE /containers/d?force=1&v=1",
		"POST /containers/a/kill?signal=SIGTERM", "POST /containers/b/kill?signal=SIGKILL", "POST /containers/b/kill?signal=SIGQUIT", "POST /containers/d/kill?signal=SIGTERM", "POST /containers/d/unpause",
	}
	if got := f.deeds(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(f.Have) != 1 || !f.Have["z"].Running {
		t.Errorf("left are %v", f.Have)
	}
}

// A container has had its grace period if that was over before the time for the removal was.
func TestHadGrace(t *testing.T) {
	for name, x := range map[string]struct {
		until string // the request at which the time is over
		more  []Note
		want  bool
	}{
		"grace period over":  {"DELETE /containers/a", nil, true},
		"no time for all":    {"GET /containers/a/wait", nil, false},
		"not even asked":     {"GET /containers/a/json", nil, false},
		"not even listed":    {"GET /containers/json", nil, false},
		"another may come":   {"DELETE /containers/a", []Note{createNote(Container, "r")}, false},
		"the journal is cut": {"DELETE /containers/a", nil, false},
	} {
		f := newFake(t, map[string]*testkit.Object{"a": {Running: true, Ignores: true}})
		ctx, cancel := context.WithCancel(soon(t))
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			asked := r.Method + " " + r.URL.Path
			if strings.Replace(asked, "POST", "GET", 1) == x.until {
				cancel()
			}
			if r.Method == http.MethodDelete {
				http.Error(w, `{"message":"busy"}`, http.StatusInternalServerError)
			}
			return r.Method == http.MethodDelete
		})
		c := recorded("a")
		for _, n := range x.more {
			c.Ledger.Add(n)
		}
		c.Complete = name != "the journal is cut"
		grace := time.Millisecond
		if strings.HasSuffix(x.until, "/wait") {
			grace = time.Hour
		}
		ended, err := c.End(ctx, f.Client, grace)
		if got := c.HadGrace(ended); got != x.want || err == nil {
			t.Errorf("%s: %v, %+v, %v", name, got, ended, err)
		}
	}
}

// Without a grace period End uses force at once.
func TestEndWithoutGrace(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}})
	if _, err := recorded("a").End(soon(t), f.Client, 0); err != nil {
		t.Error(err)
	}
	if got := f.deeds(); !slices.Equal(got, []string{"DELETE /containers/a?force=1&v=1", "POST /containers/a/kill?signal=SIGKILL"}) {
		t.Errorf("%q", got)
	}
}

// An engine that refuses a few times is asked again: --rm may remove a container at the same time as we do.
func TestEndAsksAgain(t *testing.T) {
	for _, code := range []int{http.StatusConflict, http.StatusInternalServerError} {
		f := newFake(t, map[string]*testkit.Object{"a": {Running: true}})
		refusals := 2
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete || refusals == 0 {
				return false
			}
			refusals--
			http.Error(w, `{"message":"removal of container a is already in progress"}`, code)
			return true
		})
		ended, err := recorded("a").End(soon(t), f.Client, 0)
		if err != nil || len(ended) != 1 || !ended[0].Done {
			t.Errorf("%d: %+v, %v", code, ended, err)
		}
	}
}

// If an engine keeps failing until the time is up, the error names each container and what the engine says, in one
// line.
func TestEndNamesWhatIsLeft(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "b": {}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			http.Error(w, `{"message":"device or resource busy"}`, http.StatusInternalServerError)
		}
		return r.Method == http.MethodDelete
	})
	ctx, cancel := context.WithCancel(soon(t))
	asked := f.secondDelete("a", "b")
	go func() {
		<-asked
		cancel()
	}()
	ended, err := recorded("a", "b").End(ctx, f.Client, 0)
	if len(ended) != 2 || ended[0].Done || ended[0].Err == nil || err == nil {
		t.Fatalf("%+v, %v", ended, err)
	}
	for _, want := range []string{"container a: ", "container b: ", "device or resource busy", "session s"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEndOfABrokenEngine(t *testing.T) {
	for name, c := range map[string]struct {
		asked int
		odd   func(w http.ResponseWriter, r *http.Request) bool
	}{
		"hangs": {1, func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}},
		"rubbish": {enough, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = fmt.Fprint(w, "<html>")
			return true
		}},
		"fails": {enough, func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}},
		"hangs up": {enough, func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }},
		"hangs once it has listed": {2, func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/containers/json" {
				<-r.Context().Done()
			}
			return r.URL.Path != "/containers/json"
		}},
	} {
		f := newFake(t, map[string]*testkit.Object{"a": {Running: true}})
		f.be(c.odd)
		if _, err := recorded("a").End(f.asked(t, c.asked), f.Client, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// End does not wait if no process listens, and does not ask an engine if there is nothing to end.
func TestEndWithoutAnEngine(t *testing.T) {
	for _, cause := range []error{syscall.ECONNREFUSED, syscall.ENOENT} {
		cl := Client{Dial: func() (net.Conn, error) { return nil, cause }}
		ended, err := recorded("a").End(soon(t), cl, time.Hour)
		if len(ended) != 0 || !errors.Is(err, cause) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v, %v", ended, err)
		}
	}
	cl := Client{Dial: func() (net.Conn, error) {
		t.Error("dialled for nothing")
		return nil, syscall.ENOENT
	}}
	if _, err := (Claim{Session: "s", Complete: true}).End(soon(t), cl, 0); err != nil {
		t.Error(err)
	}
}

// If the engine cannot return an image's labels, the verdict stays open. End must not report that nothing is left.
func TestEndWithoutTheImage(t *testing.T) {
	created := time.Now()
	l := labels("s", "r1")
	l[LabelCreated] = created.Format(time.RFC3339Nano)
	f := newFake(t, map[string]*testkit.Object{"a": {Labels: l, Created: created}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/images/") {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	c := Claim{Session: "s", TrustIDs: true}
	if _, err := c.End(f.asked(t, enough), f.Client, 0); err == nil || len(f.deeds()) != 0 {
		t.Errorf("%v, did %q", err, f.deeds())
	}
	f.be(nil)
	if ended, err := c.End(soon(t), f.Client, 0); err != nil || len(ended) != 1 || !ended[0].Done {
		t.Errorf("%+v, %v", ended, err)
	}
}

// End waits for a create that has no known outcome, and ends the container when it appears.
func TestEndWaitsForPendingCreates(t *testing.T) {
	now := time.Now()
	f := newFake(t, map[string]*testkit.Object{})
	looks := 0
	f.be(func(http.ResponseWriter, *http.Request) bool {
		f.Lock()
		defer f.Unlock()
		if looks++; looks == 3 {
			f.Have["a"] = &testkit.Object{Labels: labels("s", "r1"), Created: now}
		}
		return false
	})
	c := Claim{Session: "s", Complete: true, TrustIDs: true}
	c.Ledger.Add(Note{Op: OpCreate, Kind: Container, Request: "r1", At: now})
	ended, err := c.End(soon(t), f.Client, 0)
	if err != nil || len(ended) != 1 || ended[0].ID != "a" || !ended[0].Done {
		t.Errorf("%+v, %v", ended, err)
	}
}

func TestEndOfCreatesThatNeverShow(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{})
	note := Note{Op: OpCreate, Kind: Container, Request: "r1", At: time.Now()}
	c := Claim{Session: "s", Complete: true, TrustIDs: true, Ledger: ledger(note)}
	if _, err := c.End(f.asked(t, enough), f.Client, 0); err == nil || !strings.Contains(err.Error(), "create of a container") {
		t.Errorf("just asked for: %v", err)
	}
	note.At = note.At.Add(-openTime)
	c.Ledger = ledger(note)
	if _, err := c.End(soon(t), f.Client, 0); err != nil {
		t.Errorf("asked for long ago: %v", err)
	}
}

// A network goes after the containers in it. One that others use is not waited for.
func TestEndOfNetworks(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "n": {Network: true, Labels: labels("s", "r2")}, "m": {Network: true, Labels: labels("s", "r3")}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && r.URL.Path == "/networks/m" {
			http.Error(w, `{"message":"network m has active endpoints"}`, http.StatusForbidden)
			return true
		}
		return false
	})
	c := recorded("a")
	c.Ledger.Add(createdNote(Network, "r2", "n"))
	c.Ledger.Add(createdNote(Network, "r3", "m"))
	ended, err := c.End(soon(t), f.Client, 0)
	if len(ended) != 3 || err == nil || !strings.Contains(err.Error(), "active endpoints") || strings.Contains(err.Error(), "network n") {
		t.Errorf("%+v, %v", ended, err)
	}
	f.Lock()
	defer f.Unlock()
	if want := []string{"POST /containers/a/kill?signal=SIGKILL", "DELETE /containers/a?force=1&v=1", "DELETE /networks/n"}; !slices.Equal(f.Did, want) {
		t.Errorf("%q, want %q", f.Did, want)
	}
}

// Docker would remove a network although a container is in it that does not run. That container could not be started again.
func TestEndOfANetworkWithAnothersContainer(t *testing.T) {
	for name, x := range map[string]struct {
		z    testkit.Object
		goes bool
	}{
		"in none":    {testkit.Object{}, true},
		"in another": {testkit.Object{In: "m"}, true},
		"stopped":    {testkit.Object{In: "n"}, false},
		"running":    {testkit.Object{In: "n", Running: true}, false},
	} {
		f := newFake(t, map[string]*testkit.Object{"a": {In: "n"}, "z": &x.z, "n": {Network: true, Labels: labels("s", "r1")}})
		c := recorded("a")
		c.Ledger.Add(createdNote(Network, "r1", "n"))
		_, err := c.End(soon(t), f.Client, 0)
		if gone := f.Have["n"] == nil; gone != x.goes || (err == nil) != x.goes || f.Have["a"] != nil {
			t.Errorf("%s: did %q: %v", name, f.deeds(), err)
		}
		if err != nil && !strings.Contains(err.Error(), "network n: a container that is not the session's is in it: z") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Podman removes no container in whose namespaces another one is. Where that is somebody else's, waiting does not help, and
// the end does not take all of its time. The session's own go one after the other.
func TestEndOfAContainerOnWhichAnotherDepends(t *testing.T) {
	base, dep, third := strings.Repeat("a", 64), strings.Repeat("d", 64), strings.Repeat("c", 64)
	for name, own := range map[string][]string{"another's": {base}, "another's, and its own": {base, dep}, "its own": {base, dep, third}} {
		f := newFake(t, map[string]*testkit.Object{base: {Running: true}, dep: {Running: true}, third: {Running: true}})
		refused := 0
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			f.Lock()
			defer f.Unlock()
			needs := f.Have[dep] != nil || f.Have[third] != nil || refused == 0
			if r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, base) || !needs {
				return false
			}
			refused++
			http.Error(w, `{"message":"container `+base+` has dependent containers which must be removed before it: `+dep+`, `+third+`: container already exists"}`, http.StatusInternalServerError)
			return true
		})
		_, err := recorded(own...).End(soon(t), f.Client, 0)
		goes := len(own) == 3
		if (err == nil) != goes || !goes && !errors.Is(err, errShared) || (f.Have[base] == nil) != goes || refused == 0 {
			t.Errorf("%s: refused %d times: %v", name, refused, err)
		}
		if left := f.Have[third]; !goes && !left.Running {
			t.Errorf("%s: the other container was touched", name)
		}
	}
}

// A filter in front of the engine that lets no removal pass does so the next time as well.
func TestEndThatAFilterForbids(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusMethodNotAllowed} {
		f := newFake(t, map[string]*testkit.Object{"a": {Running: true}})
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				http.Error(w, "no", status)
			}
			return r.Method == http.MethodDelete
		})
		if _, err := recorded("a").End(soon(t), f.Client, 0); !isFinal(err) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// The engine may make a container of the session when its network is looked at. Both go in the next round.
func TestEndOfANetworkWithALateContainer(t *testing.T) {
	now := time.Now()
	f := newFake(t, map[string]*testkit.Object{"n": {Network: true, Labels: labels("s", "r2")}})
	f.be(func(_ http.ResponseWriter, r *http.Request) bool {
		f.Lock()
		defer f.Unlock()
		if strings.Contains(r.URL.Query().Get("filters"), `"network"`) && len(f.Did) == 0 && f.Have["a"] == nil {
			f.Have["a"] = &testkit.Object{Labels: labels("s", "r1"), Created: now, In: "n"}
		}
		return false
	})
	c := Claim{Session: "s", Complete: true, TrustIDs: true}
	c.Ledger.Add(Note{Op: OpCreate, Kind: Container, Request: "r1", At: now})
	c.Ledger.Add(createdNote(Network, "r2", "n"))
	if _, err := c.End(soon(t), f.Client, 0); err != nil {
		t.Error(err)
	}
	if did := f.deeds(); !slices.ContainsFunc(did, func(d string) bool { return strings.HasPrefix(d, "DELETE /containers/a") }) || !slices.Contains(did, "DELETE /networks/n") {
		t.Errorf("did %q", did)
	}
}

// A pod goes with the containers in it, so one that others have put a container into stays. The session's own containers end
// all the same.
func TestEndOfPods(t *testing.T) {
	for name, x := range map[string]struct {
		members string
		goes    bool
	}{
		"its own":   {`{"Id":"a"},{"Id":"i"}`, true},
		"none":      {``, true},
		"another's": {`{"Id":"z"},{"Id":"i"}`, false},
	} {
		f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "z": {Running: true}})
		gone := false
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			f.Lock()
			defer f.Unlock()
			path, isPod := strings.CutPrefix(r.URL.Path, "/v4.0.0/libpod/pods/")
			switch {
			case !isPod:
				return false
			case gone && path == "json":
				_, _ = fmt.Fprint(w, `[]`)
			case gone:
				http.Error(w, `{"message":"no such pod"}`, http.StatusNotFound)
			case r.Method != http.MethodGet:
				gone = r.Method == http.MethodDelete
				f.Did = append(f.Did, r.Method+" "+path)
			case path == "json":
				_, _ = fmt.Fprint(w, `[{"Id":"p","Name":"web","Status":"Running","Created":"2026-01-02T03:04:06Z","Labels":{"mcp-tether.request":"r1"}}]`)
			default:
				_, _ = fmt.Fprintf(w, `{"Id":"p","InfraContainerID":"i","Containers":[%s]}`, x.members)
			}
			return true
		})
		c := recorded("a")
		c.Ledger.Add(createdNote(Pod, "r1", "p"))
		_, err := c.End(soon(t), f.Client, 0)
		deeds := strings.Join(f.deeds(), ", ")
		if touched := strings.Contains(deeds, " p"); gone != x.goes || touched != x.goes || f.Have["a"] != nil || (err == nil) != x.goes {
			t.Errorf("%s: did %s: %v", name, deeds, err)
		}
		if err != nil && !strings.Contains(err.Error(), "pod web: a container that is not the session's is in it: z") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Podman refuses to remove a network that containers of others use, but only if it is asked by the network's name.
func TestEndOfPodmansNetworks(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{})
	have := map[string]string{"free": "1d", "used": "2d"}
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		f.Lock()
		defer f.Unlock()
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch {
		case r.URL.Path == "/networks":
			all := []map[string]any{}
			for name, id := range have {
				all = append(all, map[string]any{"Id": id, "Name": name, "Created": time.Now(), "Labels": labels("s", "r"+id)})
			}
			_ = json.NewEncoder(w).Encode(all)
		case r.Method != http.MethodDelete:
			return false
		case name == "used":
			http.Error(w, `{"message":"network is being used"}`, http.StatusInternalServerError)
		case name == have["used"]:
			delete(have, "used")
		case have["free"] != "" && (name == "free" || name == have["free"]):
			delete(have, "free")
		default:
			return false
		}
		return true
	})
	c := recorded()
	c.Ledger.Add(createdNote(Network, "r1d", "1d"))
	c.Ledger.Add(createdNote(Network, "r2d", "2d"))
	_, err := c.End(soon(t), f.Client, 0)
	if err == nil || !strings.Contains(err.Error(), "being used") || len(have) != 1 || have["used"] == "" {
		t.Errorf("left: %v; %v", have, err)
	}
}

// Podman removes a network by its name. One that another has made anew, once the session's was removed, is not touched.
func TestEndOfANetworkThatIsMadeAnew(t *testing.T) {
	for name, x := range map[string]struct{ first, second string }{
		"another session's": {"r1", "r9"}, "of nobody": {"r1", ""},
	} {
		f := newFake(t, nil)
		at, removed := asked(), 0
		f.be(func(w http.ResponseWriter, r *http.Request) bool {
			f.Lock()
			defer f.Unlock()
			switch {
			case r.Method == http.MethodDelete:
				removed++
			case r.URL.Path == "/networks":
				request := []string{x.first, x.second}[min(removed, 1)]
				all := []map[string]any{{"Id": "n", "Name": "net", "Created": at.Add(time.Duration(removed)), "Labels": labels("", request)}}
				_ = json.NewEncoder(w).Encode(all)
			default:
				return false
			}
			return true
		})
		c := recorded()
		c.Ledger.Add(Note{Op: OpCreated, Kind: Network, Request: x.first, ID: "n", At: at})
		if ended, err := c.End(soon(t), f.Client, 0); err != nil || len(ended) != 1 || !ended[0].Done || removed != 1 {
			t.Errorf("%s: removed %d times: %+v, %v", name, removed, ended, err)
		}
	}
}

// A filter in front of docker may forbid requests that are not docker's.
func TestPodmansRequestsToAFilter(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"n": {Network: true}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		filtered := strings.Contains(r.URL.Path, "/libpod/")
		if filtered {
			http.Error(w, "Request forbidden by administrative rules.", http.StatusForbidden)
		}
		return filtered
	})
	network := Info{Kind: Network, ID: "n", Name: "net", Labels: f.Have["n"].Labels}
	if err := f.Remove(soon(t), &network); err != nil || len(f.Have) > 0 {
		t.Errorf("left %v: %v", f.Have, err)
	}
}

// Where a filter in front of docker forbids lists of pods and networks, containers end without a journal too. What is on
// record of these kinds may be left.
func TestEndBehindAFilter(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "b": {Running: true}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		filtered := strings.Contains(r.URL.Path, "/libpod/") || strings.HasPrefix(r.URL.Path, "/networks")
		if filtered {
			http.Error(w, "Request forbidden by administrative rules.", http.StatusForbidden)
		}
		return filtered
	})
	c := recorded("a")
	c.Complete = false
	if ended, err := c.End(f.asked(t, 30), f.Client, 0); err != nil || len(ended) != 1 || f.Have["a"] != nil {
		t.Errorf("%+v, %v", ended, err)
	}
	for _, kind := range []Kind{Pod, Network} {
		c := recorded("b")
		c.Ledger.Add(createdNote(kind, "r-n", "n"))
		if _, err := c.End(f.asked(t, 10), f.Client, 0); err == nil {
			t.Errorf("the %s is taken for gone", kind)
		}
	}
}

// The list of an engine may be one that we cannot read, because of what another's container has in it. What is on record
// ends all the same.
func TestEndWhereTheListCannotBeRead(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "n": {Network: true}, "z": {Running: true}})
	f.be(func(w http.ResponseWriter, r *http.Request) bool {
		all := r.RequestURI == "/containers/json?all=1"
		if all {
			_, _ = fmt.Fprint(w, `[{"Id":"z","Created":"yesterday"}]`)
		}
		return all
	})
	c := recorded("a", "gone")
	c.Ledger.Add(createdNote(Network, "r-n", "n"))
	ended, err := c.End(soon(t), f.Client, 0)
	if err != nil || len(ended) != 2 || len(f.Have) != 1 || !f.Have["z"].Running {
		t.Errorf("%+v, %v; left %v", ended, err, f.Have)
	}
	// What may have been made beside them is not known.
	f.Have["a"] = &testkit.Object{Running: true, Labels: map[string]string{LabelRequest: "r-a"}}
	c.Complete = false
	ended, err = c.End(f.asked(t, 22), f.Client, 0)
	if !errors.Is(err, ErrBadResponse) || strings.Contains(err.Error(), "\n") || len(ended) != 1 || f.Have["a"] != nil {
		t.Errorf("%+v, %v; left %v", ended, err, f.Have)
	}
}

// An engine may hang on one container. That holds up no other: here it hangs until the others are gone.
func TestEndPastOneThatHangs(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{"a": {Running: true}, "b": {Running: true}, "c": {}})
	others := f.secondDelete("a", "c")
	f.be(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/containers/b/") {
			<-others
		}
		return strings.HasSuffix(r.URL.Path, "/wait")
	})
	if ended, err := recorded("a", "b", "c").End(soon(t), f.Client, time.Hour); err != nil || len(ended) != 3 {
		t.Errorf("%+v, %v", ended, err)
	}
}

// Many are ended side by side, and no more than a few at once.
func TestEndOfMany(t *testing.T) {
	f := newFake(t, map[string]*testkit.Object{})
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("c%d", i))
		f.Have[names[i]] = &testkit.Object{Running: true, Labels: map[string]string{LabelRequest: "r-" + names[i]}}
	}
	var mu sync.Mutex
	now, most := 0, 0
	f.be(func(http.ResponseWriter, *http.Request) bool {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		return false
	})
	ended, err := recorded(names...).End(soon(t), f.Client, 0)
	if err != nil || len(ended) != 100 || len(f.Have) != 0 || most > maxParallel {
		t.Errorf("%d ended, %d left, %d at once: %v", len(ended), len(f.Have), most, err)
	}
}
