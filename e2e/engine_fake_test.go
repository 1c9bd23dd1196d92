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

// bridge copies between its clients and the engine, with half-closes.
func (f *fakeEngine) bridge(l net.Listener) {
	f.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.bridgeOne(c)
		}
	}()
}

func (f *fakeEngine) bridgeOne(c net.Conn) {
	defer c.Close()
	up, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: strings.TrimPrefix(f.host, "unix://"), Net: "unix"})
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

func overTCP(t *testing.T, f *fakeEngine) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	f.bridge(l)
	return []string{"DOCKER_HOST=tcp://" + l.Addr().String()}
}

// overTLS is an engine that wants a certificate of its clients, and shows one.
func overTLS(t *testing.T, f *fakeEngine) []string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ok(t, err)
	raw, err := x509.MarshalECPrivateKey(key)
	ok(t, err)
	certificate, secret := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	for name, text := range map[string][]byte{"ca.pem": certificate, "cert.pem": certificate, "key.pem": secret} {
		ok(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	pair, err := tls.X509KeyPair(certificate, secret)
	ok(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	ok(t, err)
	f.bridge(l)
	return []string{"DOCKER_HOST=tcp://" + l.Addr().String(), "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" + dir}
}

// overSSH puts an ssh command in front. It asks for no host: what it would have run there, it runs here.
func overSSH(t *testing.T, f *fakeEngine) []string {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\nDOCKER_HOST=" + f.host + " exec " + lookPath(t, "docker") + " system dial-stdio\n"
	testkit.WriteProgram(t, filepath.Join(bin, "ssh"), []byte(script))
	return []string{"DOCKER_HOST=ssh://somebody@nowhere", "PATH=" + bin + ":" + os.Getenv("PATH")}
}
