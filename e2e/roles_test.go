package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the fixture can do but no test has it do is dead: no test would see it break. Its verbs, traits and requests are
// the strings of its case clauses, and the list of traits. Whether a test asks for a role is told by the strings of the
// tests and not by what was played. Roles are played where nothing can be written down: in containers, with no
// descriptor left, or with files limited to nothing. So a string that looks like a request for a role hides that it is
// idle.
func TestFixtureHasNoIdleRoles(t *testing.T) {
	roles, own := fixtureRoles(t)
	tests := wordsOf(t, "[^r]*_test.go", "r[^o]*_test.go", "../scripts/bench/*.go") + textOf(t, "npm/*.mjs", "testdata/script/*")
	if len(roles) < 60 {
		t.Fatalf("only %d roles were found", len(roles))
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		if !mentions(own+tests, name) {
			t.Errorf("no test has the fixture play %q (%s)", name, roles[name])
		}
	}
	// What a node does with a trait names it, so that does not count.
	for _, name := range traits(t) {
		if !mentions(tests, name) {
			t.Errorf("no test has a node with the trait %q", name)
		}
	}
	// The controls: neither is everything mentioned, nor what only a comment has, or a message.
	if words := wordsOf(t, "roles_test.go"); mentions(words, "contain"+"ers") || mentions(words, "mention"+"ed") || !mentions(words, "fixture/spec.go") {
		t.Error("comments or messages are taken for words")
	}
	if mentions(own+tests, "no-such"+"-role") {
		t.Error("everything is mentioned")
	}
}

// fixtureRoles are the names of what the fixture does, with their places, and the strings by which it asks itself.
func fixtureRoles(t *testing.T) (roles map[string]string, own string) {
	t.Helper()
	roles = map[string]string{}
	files, err := filepath.Glob("fixture/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var asks strings.Builder
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		taken := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				for _, e := range n.List {
					if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						taken[lit] = true
						roles[literal(t, lit)] = fset.Position(lit.Pos()).String()
					}
				}
			case *ast.ValueSpec:
				return len(n.Names) != 1 || n.Names[0].Name != "known"
			case *ast.BasicLit:
				if n.Kind == token.STRING && !taken[n] {
					asks.WriteString(" " + literal(t, n) + " ")
				}
			}
			return true
		})
	}
	return roles, asks.String()
}

// traits are the words of the fixture's list.
func traits(t *testing.T) []string {
	t.Helper()
	_, list, found := strings.Cut(textOf(t, "fixture/spec.go"), "const known = ")
	list, _, _ = strings.Cut(list, "\n\n")
	words := strings.Fields(strings.NewReplacer(`"`, " ", "+", " ").Replace(list))
	if !found || len(words) < 20 {
		t.Fatalf("the traits are %q", words)
	}
	return words
}

func literal(t *testing.T, lit *ast.BasicLit) string {
	t.Helper()
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func textOf(t *testing.T, patterns ...string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range matching(t, patterns) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	return text.String()
}

// matching lists the files; each pattern must match one.
func matching(t *testing.T, patterns []string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// wordsOf are the strings in Go code that may ask for a role. Such a string is a word, or several without a space
// between them, or a shell's command line that has the fixture in it. Comments, messages of a test and sentences are
// left out.
func wordsOf(t *testing.T, patterns ...string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range matching(t, patterns) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				return !isMessage(n)
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					if s := literal(t, n); !strings.Contains(s, " ") || strings.Contains(strings.ToLower(s), "fixture") {
						text.WriteString("\n" + s + "\n")
					}
				}
			}
			return true
		})
	}
	return text.String()
}

// isMessage reports whether a call only says something about a test.
func isMessage(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf", "Need", "Excuse"}, f.Sel.Name)
}

// mentions tells whether the text has the word, not as a part of another one.
func mentions(text, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `($|[^\w-])`).MatchString(text)
}
