package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"mcp-tether/e2e/stage"
)

const notTried = "not tried"

// compare plays each story under each wrapper, prints the table, and judges it.
func compare(ctx context.Context, wrappers []peer, cases []story) error {
	cast, tidy, err := stage.Cast("server", ours)
	if err != nil {
		return err
	}
	defer tidy()
	image := ""
	if reachEngine() {
		if image, err = stage.Image(cast.Fixture); err != nil {
			return err
		}
		defer func() { _, _ = stage.Docker("rmi", image) }()
	}
	fmt.Println(heading(cases))
	var judgements []error
	var versions []string
	for _, p := range wrappers {
		why := p.lacks()
		if why != "" {
			fmt.Printf("| %s | %s |%s\n", p.name, why, strings.Repeat(" |", len(cases)-1))
			continue
		}
		if p.name != bare {
			versions = append(versions, p.version())
		}
		cells := playAll(ctx, p, cases, cast.Fixture, image)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Printf("| %s | %s |\n", p.name, strings.Join(cells, " | "))
		judgements = append(judgements, judge(p, cases, cells))
	}
	fmt.Printf("\n%s.\n", strings.Join(versions, ", "))
	return errors.Join(judgements...)
}

func heading(cases []story) string {
	head := "| |"
	for _, c := range cases {
		head += " " + c.title + " |"
	}
	return head + "\n|---|" + strings.Repeat("---|", len(cases))
}

// judge holds bare, the control, to failing, and mcp-tether to passing.
func judge(p peer, cases []story, cells []string) error {
	var errs []error
	for i, c := range cases {
		switch passes := cells[i] == "-"; {
		case cells[i] == notTried:
		case p.name == bare && (passes || strings.HasPrefix(cells[i], broken)):
			errs = append(errs, fmt.Errorf("%s shows nothing: bare it gives %q", c.name, cells[i]))
		case p.name == ours && !passes:
			errs = append(errs, fmt.Errorf("mcp-tether fails in %s: %s", c.name, cells[i]))
		}
	}
	return errors.Join(errs...)
}

// atOnce is how many stories are played together: most of the time they wait.
const atOnce = 4

func playAll(ctx context.Context, p peer, cases []story, fixture, image string) []string {
	cells := make([]string, len(cases))
	free := make(chan bool, atOnce)
	var playing sync.WaitGroup
	for i, c := range cases {
		if c.contained && image == "" {
			cells[i] = notTried
			continue
		}
		free <- true
		playing.Go(func() {
			cells[i] = playOne(ctx, p, c, fixture, image)
			<-free
		})
	}
	playing.Wait()
	return cells
}

// broken is what a cell says where a story could not be played. Why is on stderr.
const broken = "does not work here"

// playOne has a process of its own play the story, with directories of its own for what wrappers keep between sessions.
func playOne(ctx context.Context, p peer, c story, fixture, image string) string {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return fmt.Sprint(broken, ": ", err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{playArg, fixture, c.name, image}, p.argv...)...)
	// One that is told to end clears up first.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "XDG_RUNTIME_DIR="+dir)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: %s, %s: %v\n%s", p.name, c.name, err, said.String())
		return broken
	}
	return strings.TrimSpace(string(out))
}

// reachEngine has docker use the engine of the tests if there is one, and tells whether an engine answers.
func reachEngine() bool {
	if host := os.Getenv("MCP_TETHER_TEST_DOCKER"); host != "" {
		_ = os.Setenv("DOCKER_HOST", host)
	}
	_, err := stage.Docker("version")
	return err == nil && os.Getenv("DOCKER_HOST") != ""
}
