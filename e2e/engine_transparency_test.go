package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
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
		{"terminal", playTerminal}, {"copy", playCopy}, {"build", playBuild},
	}
}

// What clients see through the proxy is what they see without it. The bytes of the protocol are tests of the proxy
// (internal/engine/keeper), and docker run, exec and compose are ways to launch a server (launchers_test.go); here is what else a real
// client does.
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
				// The control: a scene sees what a worse proxy does.
				if sc.name == "copy" {
					worse := direct
					worse.name, worse.host = "route3", relayTo(t, e, spoil)
					if sc.play(worse) == want {
						t.Error("nobody saw that a byte is another")
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
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
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

// spoil is a relay that changes a byte.
func spoil(client, engine *net.UnixConn) {
	go func() { _, _ = io.Copy(engine, client); _ = engine.CloseWrite() }()
	_, _ = io.Copy(&spoiler{w: client}, engine)
	_ = client.CloseWrite()
}

// spoiler is a writer that changes a byte.
type spoiler struct {
	w  io.Writer
	at int
}

func (s *spoiler) Write(b []byte) (int, error) {
	const odd = 9000
	told := bytes.Clone(b)
	if s.at < odd && s.at+len(b) > odd {
		told[odd-s.at] ^= 2
	}
	_, err := s.w.Write(told)
	s.at += len(b)
	return len(b), err
}
