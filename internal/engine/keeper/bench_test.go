package keeper

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
)

// What the proxy costs, beside no relay and the least that one can do: splice(2) both ways, which understands nothing.
//
//	go test -run '^$' -bench . ./internal/engine/keeper

// ways are the ways to an engine: DOCKER_HOST as a path.
func ways(b *testing.B, serve func(c net.Conn)) map[string]string {
	b.Helper()
	dir := b.TempDir()
	listen := func(name string, each func(c net.Conn)) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() {
					defer c.Close()
					each(c)
				}()
			}
		}()
	}
	at := engine.Endpoint{Socket: filepath.Join(dir, "direct")}
	listen("direct", serve)
	listen("splice", func(c net.Conn) {
		up, err := net.Dial("unix", at.Socket)
		if err != nil {
			return
		}
		defer up.Close()
		go splice(up.(*net.UnixConn), c.(*net.UnixConn))
		splice(c.(*net.UnixConn), up.(*net.UnixConn))
	})
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "proxy")})
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		b.Fatal(err)
	}
	p := &proxy{Dial: at.Dial, Labels: ours, Made: func(string) {}, Warn: func(error) {}, At: at}
	go func() { _ = p.Serve(engine.NewListener(fd)) }()
	b.Cleanup(p.Close)
	return map[string]string{"direct": at.Socket, "splice": filepath.Join(dir, "splice"), "proxy": filepath.Join(dir, "proxy")}
}

// splice copies one direction through a pipe, without its bytes ever being in this process.
func splice(to, from *net.UnixConn) {
	defer func() { _ = to.CloseWrite() }()
	in, errIn := from.File()
	out, errOut := to.File()
	r, w, err := os.Pipe()
	if errIn != nil || errOut != nil || err != nil {
		return
	}
	for _, f := range []*os.File{in, out, r, w} {
		defer f.Close()
		_ = unix.SetNonblock(int(f.Fd()), false)
	}
	for {
		n, err := unix.Splice(int(in.Fd()), nil, int(w.Fd()), nil, 64<<10, unix.SPLICE_F_MOVE)
		if n <= 0 || err != nil {
			return
		}
		for n > 0 {
			m, err := unix.Splice(int(r.Fd()), nil, int(out.Fd()), nil, int(n), unix.SPLICE_F_MOVE)
			if m <= 0 || err != nil {
				return
			}
			n -= m
		}
	}
}

func each(b *testing.B, serve func(c net.Conn), run func(b *testing.B, socket string)) {
	b.Helper()
	all := ways(b, serve)
	for _, name := range []string{"direct", "splice", "proxy"} {
		b.Run(name, func(b *testing.B) { run(b, all[name]) })
	}
}

func dial(b *testing.B, socket string) net.Conn {
	b.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

const ping = "GET /_ping HTTP/1.1\r\nHost: docker\r\nUser-Agent: x\r\n\r\n"

// A request and its answer, on a connection of its own.
func BenchmarkRequest(b *testing.B) {
	each(b, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
	}, func(b *testing.B, socket string) {
		for b.Loop() {
			c := dial(b, socket)
			_, _ = io.WriteString(c, ping)
			if _, err := io.ReadAll(c); err != nil {
				b.Fatal(err)
			}
			_ = c.Close()
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	each(b, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, reply(201, `{"Id":"c1","Warnings":[]}`))
	}, func(b *testing.B, socket string) {
		for b.Loop() {
			c := dial(b, socket)
			_, _ = io.WriteString(c, post("/v1.41/containers/create", `{"Image":"x","HostConfig":{"Binds":["/a:/b"]},"Labels":{"a":"b"}}`))
			if _, err := io.ReadAll(c); err != nil {
				b.Fatal(err)
			}
			_ = c.Close()
		}
	})
}

// stream is an engine that has turned a connection into a stream, and sends back what comes.
func stream(c net.Conn) {
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, upgraded)
	_, _ = io.Copy(c, c)
}

// begin makes a stream.
func begin(b *testing.B, socket string) net.Conn {
	b.Helper()
	c := dial(b, socket)
	_, _ = io.WriteString(c, upgrade)
	if _, err := io.ReadFull(c, make([]byte, len(upgraded))); err != nil {
		b.Fatal(err)
	}
	return c
}

// A line there and back.
func BenchmarkLine(b *testing.B) {
	each(b, stream, func(b *testing.B, socket string) {
		c := begin(b, socket)
		defer c.Close()
		line := make([]byte, 200)
		for b.Loop() {
			_, _ = c.Write(line)
			if _, err := io.ReadFull(c, line); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Much, one way.
func BenchmarkBulk(b *testing.B) {
	const size = 256 << 20
	each(b, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		piece := make([]byte, 32<<10)
		for range size / len(piece) {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}, func(b *testing.B, socket string) {
		b.SetBytes(size)
		piece := make([]byte, 32<<10)
		for b.Loop() {
			c := dial(b, socket)
			_, _ = io.WriteString(c, ping)
			for n := 0; n < size; {
				m, err := c.Read(piece)
				if n += m; err != nil {
					b.Fatal(err)
				}
			}
			_ = c.Close()
		}
	})
}
