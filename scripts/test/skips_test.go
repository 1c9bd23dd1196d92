package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// Every name on the list is that of a test that exists: a test that is renamed or removed must leave the list.
func TestListedTestsExist(t *testing.T) {
	list, err := parseSkips(skipList)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		names, err := namesOf(a.tests)
		if err != nil {
			t.Errorf("%s %s: %v", a.kind, a.tests, err)
		}
		for _, name := range names {
			if !exists(t, name) {
				t.Errorf("%s %s: there is no test %s", a.kind, a.tests, name)
			}
		}
	}
	// The controls.
	if _, err := namesOf(regexp.MustCompile(`^(e2e\.TestReap\w+)$`)); err == nil {
		t.Error("a pattern was taken for a name")
	}
	names, err := namesOf(regexp.MustCompile(`^(e2e\.Test(A(b|c)?|D/.*|D(,x)?))$`))
	slices.Sort(names)
	if want := []string{"e2e.TestA", "e2e.TestAb", "e2e.TestAc", "e2e.TestD", "e2e.TestD,x"}; err != nil || !slices.Equal(slices.Compact(names), want) {
		t.Errorf("%q, %v", names, err)
	}
	if exists(t, "e2e.TestSomethingNew") {
		t.Error("every test exists")
	}
}

// Every skip of a test goes through testkit, which says why in words that are counted here. A fuzz target may pass over
// an input.
func TestSkipsGoThroughTestkit(t *testing.T) {
	plain := regexp.MustCompile(`\bt\.(Skip|Skipf|SkipNow)\(`)
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testkit"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for line := range strings.Lines(string(text)) {
			if plain.MatchString(line) && !strings.Contains(line, "the fields make no message") && !strings.Contains(line, "MustCompile") {
				t.Errorf("%s: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
	if !plain.MatchString("\t\tt.Skip" + `("no")`) {
		t.Error("no skip would be found")
	}
}

// exists reports whether a package has a test.
func exists(t *testing.T, name string) bool {
	t.Helper()
	pkg, name, _ := strings.Cut(name, ".")
	files, err := filepath.Glob("../../" + pkg + "/*_test.go")
	if len(files) == 0 {
		files, err = filepath.Glob("../../internal/" + pkg + "/*_test.go")
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no tests, %v", pkg, err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
	})
}

// namesOf are all the tests that a pattern names, without their subtests.
func namesOf(pattern *regexp.Regexp) ([]string, error) {
	tree, err := syntax.Parse(pattern.String(), syntax.Perl)
	if err != nil {
		return nil, err
	}
	all, err := spell(tree)
	for i, name := range all {
		all[i], _, _ = strings.Cut(name, "/")
		if strings.Contains(all[i], anything) {
			return nil, fmt.Errorf("%q is a pattern, and no name", all[i])
		}
	}
	return all, err
}

// anything stands for what a pattern leaves open.
const anything = "*"

// spell spells out what an expression matches.
func spell(e *syntax.Regexp) ([]string, error) {
	switch e.Op {
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpEmptyMatch:
		return []string{""}, nil
	case syntax.OpLiteral:
		return []string{string(e.Rune)}, nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpAnyCharNotNL:
		return []string{anything}, nil
	case syntax.OpCharClass: // [AB], which the parser makes of A|B
		var all []string
		for i := 0; i < len(e.Rune); i += 2 {
			for r := e.Rune[i]; r <= e.Rune[i+1]; r++ {
				all = append(all, string(r))
			}
		}
		return all, nil
	case syntax.OpQuest:
		all, err := spell(e.Sub[0])
		return append(all, ""), err
	case syntax.OpCapture:
		return spell(e.Sub[0])
	case syntax.OpAlternate:
		var all []string
		for _, sub := range e.Sub {
			more, err := spell(sub)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range e.Sub {
			more, err := spell(sub)
			if err != nil {
				return nil, err
			}
			var longer []string
			for _, head := range all {
				for _, tail := range more {
					longer = append(longer, head+tail)
				}
			}
			all = longer
		}
		return all, nil
	default:
		return nil, fmt.Errorf("%q names no test", e)
	}
}
