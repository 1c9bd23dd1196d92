package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// fakeEngine answers as an engine does, as far as a client, the proxy and a teardown of containers can tell. A test may
// answer requests itself (takes).
type fakeEngine struct {
	t      *testing.T
	host   string
	server *http.Server
	// takes may take over a request, and reports whether it did.
	takes func(w http.ResponseWriter, r *http.Request) bool

	lock  sync.Mutex
	seen  []string
	boxes map[string]fakeBox
	made  int // so far
}

type fakeBox struct {
	name   string
	labels map[string]string
	made   time.Time
}

func newFake(t *testing.T, takes func(w http.ResponseWriter, r *http.Request) bool) *fakeEngine {
	t.Helper()
	l, host := listenUnix(t)
	f := &fakeEngine{t: t, host: host, takes: takes, boxes: map[string]fakeBox{}}
	f.serve(l)
	t.Cleanup(f.die)
	return f
}

func (f *fakeEngine) serve(l net.Listener) {
	s := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	f.server = s
	go func() { _ = s.Serve(l) }()
}

// die closes everything at once.
func (f *fakeEngine) die() { _ = f.server.Close() }

// comeBack listens again, where it did before.
func (f *fakeEngine) comeBack() {
	f.t.Helper()
	path := strings.TrimPrefix(f.host, "unix://")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.serve(l)
}

// asked tells which requests came whose text contains the words.
func (f *fakeEngine) asked(words string) []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(f.seen), func(s string) bool { return !strings.Contains(s, words) })
}

// left are the containers that the engine has.
func (f *fakeEngine) left() []fakeBox {
	f.lock.Lock()
	defer f.lock.Unlock()
	var all []fakeBox
	for _, b := range f.boxes {
		all = append(all, b)
	}
	return all
}

var versionPath = regexp.MustCompile(`^/v[0-9.]+/`)

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := versionPath.ReplaceAllString(r.URL.Path, "/")
	f.lock.Lock()
	f.seen = append(f.seen, r.Method+" "+path)
	f.lock.Unlock()
	if f.takes != nil && f.takes(w, r) {
		return
	}
	switch word := strings.Split(path, "/"); {
	case path == "/_ping":
		_, _ = io.WriteString(w, "OK")
	case path == "/containers/create":
		f.create(w, r)
	case path == "/containers/json":
		f.list(w)
	case path == "/networks":
		_, _ = io.WriteString(w, "[]")
	case word[1] == "containers" && len(word) > 2:
		f.box(w, r, word[2])
	default:
		http.Error(w, `{"message":"page not found"}`, http.StatusNotFound)
	}
}

func (f *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Labels map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, fmt.Sprintf(`{"message":%q}`, err), http.StatusBadRequest)
		return
	}
	f.lock.Lock()
	f.made++
	id := fmt.Sprintf("%064x", f.made)
	f.boxes[id] = fakeBox{r.URL.Query().Get("name"), asked.Labels, time.Now()}
	f.lock.Unlock()
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"Id":%q,"Warnings":[]}`, id)
}

func (f *fakeEngine) list(w http.ResponseWriter) {
	f.lock.Lock()
	defer f.lock.Unlock()
	list := []map[string]any{}
	for id, b := range f.boxes {
		list = append(list, map[string]any{"Id": id, "Names": []string{"/" + b.name}, "Image": "i", "ImageID": "sha256:1", "Labels": b.labels, "State": "created", "Created": b.made.Unix()})
	}
	_ = json.NewEncoder(w).Encode(list)
}

// box answers about one container, which never runs.
func (f *fakeEngine) box(w http.ResponseWriter, r *http.Request, id string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	b, found := f.boxes[id]
	switch {
	case !found:
		http.Error(w, `{"message":"No such container"}`, http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(f.boxes, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{
			"Id": id, "Name": "/" + b.name, "Image": "sha256:1", "Created": b.made.UTC().Format(time.RFC3339Nano),
			"Config": map[string]any{"Image": "i", "Labels": b.labels}, "State": map[string]any{"Status": "created"},
		})
	default:
		http.Error(w, `{"message":"is not running"}`, http.StatusConflict)
	}
}

// rudeEngine reads a request's head, and lets rude do to the connection what it likes.
func rudeEngine(t *testing.T, rude func(c *net.UnixConn, request string)) string {
	t.Helper()
	l, host := listenUnix(t)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				rude(c, newLines(c).head())
			}()
		}
	}()
	return host
}

// bridge copies between its clients and the engine, with half-closes.
func bridge(t *testing.T, l net.Listener, e *engine) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go bridgeOne(c, e)
		}
	}()
}

func bridgeOne(c net.Conn, e *engine) {
	defer c.Close()
	up, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: e.sock, Net: "unix"})
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.CloseWrite()
	}()
	_, _ = io.Copy(c, up)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func overTCP(t *testing.T, e *engine, _ string) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bridge(t, l, e)
	return []string{"DOCKER_HOST=tcp://" + l.Addr().String()}
}

// overTLS is an engine that wants a certificate of its clients, and shows one.
func overTLS(t *testing.T, e *engine, _ string) []string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	raw, keyErr := x509.MarshalECPrivateKey(key)
	if err != nil || keyErr != nil {
		t.Fatal(err, keyErr)
	}
	certificate, secret := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	for name, text := range map[string][]byte{"ca.pem": certificate, "cert.pem": certificate, "key.pem": secret} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certificate, secret)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	bridge(t, l, e)
	return []string{"DOCKER_HOST=tcp://" + l.Addr().String(), "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" + dir}
}

// overSSH puts an ssh command beside docker's. It asks for no host: what it would have run there, it runs here.
func overSSH(t *testing.T, e *engine, bin string) []string {
	t.Helper()
	script := "#!/bin/sh\nDOCKER_HOST=" + e.host + " exec " + bin + "/docker system dial-stdio\n"
	testkit.WriteProgram(t, filepath.Join(bin, "ssh"), []byte(script))
	return []string{"DOCKER_HOST=ssh://somebody@nowhere"}
}
