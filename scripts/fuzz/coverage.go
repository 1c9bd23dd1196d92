package main

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// profile is what a run has covered, by the places of the blocks of statements.
type profile map[string]block

// block is how many statements it has, and how often it ran.
type block struct{ statements, ran int }

// percent is how many statements of a package ran, of 100.
func (p profile) percent(of string) float64 {
	covered, all := 0, 0
	for place, b := range p {
		if path.Dir(place) != of {
			continue
		}
		if all += b.statements; b.ran > 0 {
			covered += b.statements
		}
	}
	return 100 * float64(covered) / float64(max(all, 1))
}

// add counts what another run has covered as well.
func (p profile) add(other profile) {
	for place, b := range other {
		b.ran += p[place].ran
		p[place] = b
	}
}

// feature is something that an input makes a package do: it runs a block, and runs it about so often (the magnitude is the
// number of bits of the count, as the fuzzer itself counts). Magnitude 0 is that it runs at all.
type feature struct {
	place     string
	magnitude int
}

// features are what a run did.
func (p profile) features() []feature {
	var all []feature
	for place, b := range p {
		if b.ran > 0 {
			all = append(all, feature{place, 0}, feature{place, bits.Len(uint(b.ran))})
		}
	}
	return all
}

// measure runs the target with the inputs of dir/testdata/fuzz that a pattern matches, and with the seeds of its code.
func (t target) measure(ctx context.Context, dir, inputs string) (profile, error) {
	file := filepath.Join(dir, "profile")
	said, err := t.run(ctx, dir, "-test.run=^"+t.name+"$/"+inputs, "-test.coverprofile="+file, "-test.timeout=5m")
	if err != nil {
		return nil, fmt.Errorf("run with the inputs %s: %w\n%s", inputs, err, said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what is covered: %w", err)
	}
	return parseProfile(string(text))
}

// parseProfile reads what go test -coverprofile writes: a line for the mode, then "PLACE STATEMENTS COUNT".
func parseProfile(text string) (profile, error) {
	p := profile{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue // the mode
		}
		statements, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, fmt.Errorf("read the coverage %q: %w", line, err)
		}
		ran, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, fmt.Errorf("read the coverage %q: %w", line, err)
		}
		p[words[0]] = block{statements, ran}
	}
	return p, nil
}
