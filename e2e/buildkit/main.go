// Command buildkit is a client of BuildKit in HTTP/2, as docker's own are. It asks the engine at the given address what
// it is, builds something of two files, and prints the result.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
)

// answer is what does not change from one build to the next.
type answer struct {
	Version   string
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
	c, err := client.New(ctx, address)
	if err != nil {
		return out, err
	}
	defer c.Close()
	info, err := c.Info(ctx)
	if err != nil {
		return out, err
	}
	out.Version = info.BuildkitVersion.Version
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
