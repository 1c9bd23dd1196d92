package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// fakeEngine is an engine that may be gone for a while.
type fakeEngine struct {
	testkit.Engine
	t      *testing.T
	host   string
	server *http.Server
}

func newFake(t *testing.T, takes func(w http.ResponseWriter, r *http.Request) bool) *fakeEngine {
	t.Helper()
	l, host := listenUnix(t)
	f := &fakeEngine{Engine: testkit.Engine{Takes: takes}, t: t, host: host}
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
