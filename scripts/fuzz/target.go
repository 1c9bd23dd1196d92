package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// target is one fuzz target of a package.
type target struct {
	path, dir string // of the package
	name      string
	// against is what it is compared with; "" for a target that compares with nothing.
	against string
	// binary is the compiled test of the package.
	binary string
}

// corpus is the directory of the inputs that are kept: Go's own place for them.
func (t target) corpus() string { return filepath.Join(t.dir, "testdata", "fuzz", t.name) }

// targetsIn finds the targets of a package whose names match.
func targetsIn(path, dir string, wanted *regexp.Regexp) ([]target, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("look for the tests of %s: %w", path, err)
	}
	var all []target
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("look for fuzz targets: %w", err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && wanted.MatchString(f.Name.Name) {
				all = append(all, target{path: path, dir: dir, name: f.Name.Name, against: against(f.Doc.Text())})
			}
		}
	}
	return all, nil
}

// against is what a doc comment says that the target compares with: "FuzzHead compares our reading with net/http, which engines
// use."
func against(doc string) string {
	sentence, _, _ := strings.Cut(strings.Join(strings.Fields(doc), " "), ". ")
	m := regexp.MustCompile(`^Fuzz\w+ compares .+? with ([^,:]+)`).FindStringSubmatch(strings.TrimSuffix(sentence, "."))
	if m == nil {
		return ""
	}
	return m[1]
}
