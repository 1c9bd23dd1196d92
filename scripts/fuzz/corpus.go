package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// The bounds of what is kept for each target. 26 targets are below one MiB with them.
const (
	maxInputs = 32
	maxBytes  = 32 << 10
)

// corpus are the inputs of a target, gathered in a directory where the test binary finds them.
type corpus struct {
	target
	scratch string
	inputs  []input
	// all is what the inputs and the seeds cover together.
	all profile
}

// input is one input: a file that Go has named by its content.
type input struct {
	name, file string
	size       int64
	kept       bool
	covers     profile
}

// gather takes together the inputs that are kept and those that Go's cache has, and measures them.
func (t target) gather(ctx context.Context, scratch, cache string) (corpus, error) {
	c := corpus{target: t, scratch: scratch}
	if err := errors.Join(os.RemoveAll(filepath.Join(scratch, "testdata")), os.MkdirAll(c.links(), 0o700)); err != nil {
		return c, fmt.Errorf("make room for the inputs: %w", err)
	}
	for _, dir := range []string{t.corpus(), cache} {
		if err := c.link(dir); err != nil {
			return c, err
		}
	}
	var err error
	if c.all, err = t.measure(ctx, scratch, ""); err == nil {
		return c, nil
	}
	// The cache may have inputs of a time when the target took other values. No other failure goes away without them.
	if c.dropForeign(err) == 0 {
		return c, err
	}
	c.all, err = t.measure(ctx, scratch, "")
	return c, err
}

// links is where the test binary looks for the inputs.
func (c *corpus) links() string { return filepath.Join(c.scratch, "testdata", "fuzz", c.name) }

// link adds the inputs of a directory.
func (c *corpus) link(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for inputs: %w", err)
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return fmt.Errorf("look at an input: %w", err)
		}
		in := input{name: e.Name(), file: filepath.Join(dir, e.Name()), size: st.Size(), kept: dir == c.corpus()}
		switch err := os.Symlink(in.file, filepath.Join(c.links(), in.name)); {
		case err == nil:
			c.inputs = append(c.inputs, in)
		case !errors.Is(err, fs.ErrExist): // the same input may be in both
			return fmt.Errorf("gather the inputs: %w", err)
		}
	}
	return nil
}

// dropForeign leaves out the inputs of the cache that Go calls malformed, and counts them.
func (c *corpus) dropForeign(said error) (dropped int) {
	malformed := regexp.MustCompile(`"testdata/fuzz/\w+/(\w+)": (?:unmarshal|wrong number|mismatched)`)
	for _, m := range malformed.FindAllStringSubmatch(said.Error(), -1) {
		c.inputs = slices.DeleteFunc(c.inputs, func(in input) bool {
			if in.name != m[1] || in.kept || os.Remove(filepath.Join(c.links(), in.name)) != nil {
				return false
			}
			dropped++
			return true
		})
	}
	return dropped
}

// keep measures each input alone, puts the chosen ones in the place of those that were kept, and says what they cover.
func (c *corpus) keep(ctx context.Context) (profile, error) {
	seeds, err := c.seeds(ctx)
	if err != nil {
		return nil, err
	}
	covered := profile{}
	for _, p := range seeds {
		covered.add(p)
	}
	for i := range c.inputs {
		in := &c.inputs[i]
		if in.covers, err = c.measure(ctx, c.scratch, "^"+in.name+"$"); err != nil {
			return nil, err
		}
	}
	chosen := choose(c.inputs, seeds)
	for _, in := range chosen {
		covered.add(in.covers)
	}
	return covered, c.replace(chosen)
}

// seeds measures each seed of the code alone: how often all of them together run a block is no measure for one input.
func (c *corpus) seeds(ctx context.Context) (all []profile, err error) {
	said, err := c.run(ctx, c.scratch, "-test.run=^"+c.name+"$/^seed#", "-test.v", "-test.timeout=5m")
	if err != nil {
		return nil, fmt.Errorf("run the seeds: %w\n%s", err, said)
	}
	for _, m := range regexp.MustCompile(`(?m)^=== RUN   \w+/(seed#\d+)$`).FindAllSubmatch(said, -1) {
		p, err := c.measure(ctx, c.scratch, "^"+string(m[1])+"$")
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// choose takes the input that does most of what no other has done, again and again, until none does anything more or
// the bounds are reached. A block that has not run before counts more than any number of runs. Among equals, one that is
// kept already comes first, then the smallest.
func choose(inputs []input, seeds []profile) []input {
	seen := map[feature]bool{}
	for _, p := range seeds {
		for _, f := range p.features() {
			seen[f] = true
		}
	}
	left := slices.Clone(inputs)
	slices.SortFunc(left, func(a, b input) int {
		if a.kept != b.kept {
			return map[bool]int{true: -1, false: 1}[a.kept]
		}
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
	does := map[string][]feature{}
	for _, in := range left {
		does[in.name] = in.covers.features()
	}
	var chosen []input
	for room := int64(maxBytes); len(chosen) < maxInputs; {
		best, most := -1, 0
		for i, in := range left {
			if n := gain(does[in.name], seen); n > most && in.size <= room {
				best, most = i, n
			}
		}
		if best < 0 {
			break
		}
		for _, f := range does[left[best].name] {
			seen[f] = true
		}
		room -= left[best].size
		chosen = append(chosen, left[best])
		left = slices.Delete(left, best, best+1)
	}
	return chosen
}

// gain weighs the features that were not seen before.
func gain(does []feature, seen map[feature]bool) (n int) {
	for _, f := range does {
		switch {
		case seen[f]:
		case f.magnitude == 0:
			n += 1 << 20
		default:
			n++
		}
	}
	return n
}

// replace makes the chosen inputs those that are kept.
func (c *corpus) replace(chosen []input) error {
	dir := c.corpus()
	for _, in := range c.inputs {
		if in.kept && !slices.ContainsFunc(chosen, func(x input) bool { return x.name == in.name }) {
			if err := os.Remove(in.file); err != nil {
				return fmt.Errorf("remove an input: %w", err)
			}
		}
	}
	if len(chosen) == 0 {
		_ = os.Remove(dir) // there may be none
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make room for inputs: %w", err)
	}
	for _, in := range chosen {
		if in.kept {
			continue
		}
		text, err := os.ReadFile(in.file)
		if err != nil {
			return fmt.Errorf("read an input: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, in.name), text, 0o644); err != nil {
			return fmt.Errorf("keep an input: %w", err)
		}
	}
	return nil
}
