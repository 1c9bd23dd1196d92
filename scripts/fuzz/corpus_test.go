package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runs is the profile of a run through these blocks, each once.
func runs(places ...string) profile {
	p := profile{}
	for _, place := range places {
		p[place] = block{1, 1}
	}
	return p
}

func namesOf(inputs []input) (names []string) {
	for _, in := range inputs {
		names = append(names, in.name)
	}
	return names
}

func TestChoose(t *testing.T) {
	often := runs("a")
	often["a"] = block{1, 100}
	for name, c := range map[string]struct {
		inputs []input
		seeds  profile
		want   []string
	}{
		"one does it all":             {[]input{{name: "x", covers: runs("a", "b")}, {name: "y", covers: runs("b", "c")}, {name: "z", covers: runs("a", "b", "c")}}, nil, []string{"z"}},
		"each does something":         {[]input{{name: "x", covers: runs("a", "b", "c")}, {name: "y", covers: runs("d")}, {name: "z", covers: runs("c")}}, nil, []string{"x", "y"}},
		"the seeds do it":             {[]input{{name: "x", covers: runs("a")}, {name: "y", covers: runs("b")}}, runs("a"), []string{"y"}},
		"the same block more often":   {[]input{{name: "x", covers: often}}, runs("a"), []string{"x"}},
		"the smallest of equals":      {[]input{{name: "x", size: 2, covers: runs("a")}, {name: "y", size: 1, covers: runs("a")}}, nil, []string{"y"}},
		"what is kept, of equals":     {[]input{{name: "x", size: 1, covers: runs("a")}, {name: "y", size: 2, kept: true, covers: runs("a")}}, nil, []string{"y"}},
		"too large":                   {[]input{{name: "x", size: maxBytes + 1, covers: runs("a", "b")}, {name: "y", size: maxBytes, covers: runs("a")}}, nil, []string{"y"}},
		"too large together":          {[]input{{name: "x", size: maxBytes, covers: runs("a", "b")}, {name: "y", size: 1, covers: runs("c")}}, nil, []string{"x"}},
		"nothing is done by no one":   {[]input{{name: "x", covers: profile{"a": {1, 0}}}}, nil, nil},
		"a block before other counts": {[]input{{name: "x", covers: often}, {name: "y", covers: runs("b")}}, runs("a"), []string{"y", "x"}},
	} {
		if got := namesOf(choose(c.inputs, []profile{c.seeds})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var many []input
	for i := range 2 * maxInputs {
		many = append(many, input{name: fmt.Sprint(i), covers: runs(fmt.Sprint(i))})
	}
	if n := len(choose(many, nil)); n != maxInputs {
		t.Errorf("%d inputs are kept", n)
	}
}

// example is a package with a target, of which each input takes another way.
var example = map[string]string{
	"go.mod": "module example\n\ngo 1.24\n",
	"x.go":   "package example\n\nfunc f(s string) int {\n\tswitch s {\n\tcase \"a\":\n\t\treturn 1\n\tcase \"b\":\n\t\treturn 2\n\tcase \"c\":\n\t\treturn 3\n\t}\n\treturn 4\n}\n",
	"x_test.go": "package example\n\nimport \"testing\"\n\n// FuzzF compares f with itself.\nfunc FuzzF(x *testing.F) {\n" +
		"\tx.Add(\"a\")\n\tx.Fuzz(func(t *testing.T, s string) {\n\t\tif f(s) != f(s) || s == \"bad\" {\n\t\t\tt.Fatal(s)\n\t\t}\n\t})\n}\n",
	"testdata/fuzz/FuzzF/kept":  "go test fuzz v1\nstring(\"a\")\n", // as the seed does
	"cache/FuzzF/two":           "go test fuzz v1\nstring(\"b\")\n",
	"cache/FuzzF/twoagain":      "go test fuzz v1\nstring(\"\\x62\")\n",
	"cache/FuzzF/three":         "go test fuzz v1\nstring(\"c\")\n",
	"cache/FuzzF/ofanothertime": "go test fuzz v1\n[]byte(\"c\")\n",
}

// A real target is measured: what is kept covers all that was covered, and with one input less it does not.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	for name, text := range example {
		write(t, filepath.Join(dir, name), text)
	}
	t.Chdir(dir)
	all, err := targetsIn("example", dir, regexp.MustCompile(""))
	if err != nil || len(all) != 1 || all[0].name != "FuzzF" || all[0].against != "itself" {
		t.Fatalf("%+v, %v", all, err)
	}
	x := all[0]
	x.binary = filepath.Join(dir, "x.test")
	if err := compile(t.Context(), x.binary, "."); err != nil {
		t.Fatal(err)
	}
	c, err := x.gather(t.Context(), t.TempDir(), filepath.Join(dir, "cache", x.name))
	if err != nil || len(c.inputs) != 4 {
		t.Fatalf("%q, %v", namesOf(c.inputs), err)
	}
	// Four results and the switch; the seed takes one way, and no input the last.
	if kept, err := c.keep(t.Context()); err != nil || kept.percent("example") != c.all.percent("example") || kept.percent("example") != 80 {
		t.Errorf("%.1f of %.1f %%, %v", kept.percent("example"), c.all.percent("example"), err)
	}
	names := listed(t, x.corpus())
	if !slices.Equal(names, []string{"three", "two"}) {
		t.Errorf("kept: %q", names)
	}
	none := filepath.Join(dir, "none")
	if err := os.Remove(filepath.Join(x.corpus(), "two")); err != nil {
		t.Fatal(err)
	}
	if c, err = x.gather(t.Context(), t.TempDir(), none); err != nil || c.all.percent("example") != 60 {
		t.Errorf("with one input less: %.1f %%, %v", c.all.percent("example"), err)
	}
	// An input that fails is not passed over, be it kept or found.
	write(t, filepath.Join(dir, "cache/FuzzF/bad"), "go test fuzz v1\nstring(\"bad\")\n")
	if _, err := x.gather(t.Context(), t.TempDir(), filepath.Join(dir, "cache", x.name)); err == nil || !strings.Contains(err.Error(), "FuzzF/bad") {
		t.Errorf("an input that fails: %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What is kept here is within its bounds, and has its target.
func TestKeptInputs(t *testing.T) {
	var total int64
	found := 0
	err := filepath.WalkDir("../..", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || filepath.Base(dir) != "fuzz" || filepath.Base(filepath.Dir(dir)) != "testdata" {
			return err
		}
		targets, err := targetsIn("", filepath.Dir(filepath.Dir(dir)), regexp.MustCompile(""))
		for _, name := range listed(t, dir) {
			if !slices.ContainsFunc(targets, func(x target) bool { return x.name == name }) {
				t.Errorf("%s/%s: there is no such target", dir, name)
			}
			found++
			var size int64
			inputs := listed(t, filepath.Join(dir, name))
			for _, in := range inputs {
				st, err := os.Stat(filepath.Join(dir, name, in))
				if err != nil {
					return err
				}
				size += st.Size()
			}
			if total += size; len(inputs) > maxInputs || size > maxBytes {
				t.Errorf("%s/%s: %d inputs of %d bytes", dir, name, len(inputs), size)
			}
		}
		return err
	})
	if err != nil || found < 20 || total > 1<<20 {
		t.Errorf("%d targets with %d bytes, %v", found, total, err)
	}
}
