// Command buildkit is a client of BuildKit, as docker's own are: it asks for an upgrade to gRPC at /grpc and /session. It asks
// the engine at the given socket what it is, builds something of two files, and prints the result.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
)

// answer is what does not change from one build to the next.
type answer struct {
	Workers   int
	Platforms int
	Files     map[string]int // name and size of what was built
	Steps     int            // of which the engine told while it built
}

func main() {
	out, err := build(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
}

func build(ctx context.Context, address, dir string) (out answer, err error) {
	c, err := client.New(ctx, "", client.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return upgrade(ctx, address, "/grpc", "h2c", nil)
	}), client.WithSessionDialer(func(ctx context.Context, proto string, meta map[string][]string) (net.Conn, error) {
		return upgrade(ctx, address, "/session", proto, meta)
	}))
	if err != nil {
		return out, err
	}
	defer c.Close()
	workers, err := c.ListWorkers(ctx)
	if err != nil {
		return out, err
	}
	for _, w := range workers {
		out.Workers++
		out.Platforms += len(w.Platforms)
	}
	if out.Steps, err = solve(ctx, c, dir); err != nil {
		return out, err
	}
	out.Files, err = sizes(dir)
	return out, err
}

// upgrade returns a connection to the engine on which it speaks another protocol.
func upgrade(ctx context.Context, address, path, proto string, meta map[string][]string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = maps.Clone(http.Header(meta))
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", proto)
	if err := r.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%s: %s", path, response.Status)
	}
	return upgraded{c, in}, nil
}

// upgraded reads what came behind the response first.
type upgraded struct {
	net.Conn
	in *bufio.Reader
}

func (u upgraded) Read(b []byte) (int, error) { return u.in.Read(b) }

// solve builds a directory and has it sent to this process, on a stream in which the engine is the client.
func solve(ctx context.Context, c *client.Client, dir string) (steps int, err error) {
	state := llb.Scratch().File(llb.Mkfile("/small", 0o644, []byte("small"))).File(llb.Mkfile("/large", 0o644, make([]byte, 3<<20)))
	definition, err := state.Marshal(ctx)
	if err != nil {
		return 0, err
	}
	told := make(chan *client.SolveStatus)
	counted := make(chan int)
	go func() {
		all := map[string]bool{}
		for status := range told {
			for _, v := range status.Vertexes {
				all[v.Name] = true
			}
		}
		counted <- len(all)
	}()
	_, err = c.Solve(ctx, definition, client.SolveOpt{Exports: []client.ExportEntry{{Type: client.ExporterLocal, OutputDir: dir}}}, told)
	return <-counted, err
}

func sizes(dir string) (map[string]int, error) {
	out := map[string]int{}
	for _, name := range []string{"small", "large"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		out[name] = len(b)
	}
	return out, nil
}
