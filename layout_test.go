package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of the house that a compiler does not enforce.

// floors says which package stands on which: imports point down, never up and never to a neighbour.
func floors() map[string]int {
	return map[string]int{
		".":            8,
		"internal/cli": 7,
		"supervise":    6, "internal/front": 6,
		"reap": 5, "internal/live": 5, "internal/share": 5,
		"internal/engine/keeper": 4, "internal/relay": 4,
		"internal/teardown": 3, "internal/clients": 3, "internal/display": 3,
		"cgroup": 2, "internal/session": 2, "internal/evidence": 2, "internal/engine": 2, "internal/argv": 2, "internal/mcp/mux": 2,
		"internal/proc": 1, "internal/mcp": 1,
		"internal/waiting": 0,
	}
}

// libraries says, for each library, which packages alone may import it. Packages below supervise, reap and live return
// errors and neither log nor print.
func libraries() map[string][]string {
	return map[string][]string{
		"github.com/urfave/cli":             {"internal/cli"},
		"github.com/rs/zerolog":             {"internal/cli", "internal/engine/keeper", "internal/display", "internal/front", "supervise"},
		"github.com/shirou/gopsutil/v3/mem": {"internal/cli"},
		// These read /proc/stat when a program starts, even if it does not call them.
		"github.com/shirou/gopsutil/v3/cpu":     {},
		"github.com/shirou/gopsutil/v3/process": {},
	}
}

// variables are the package-level variables that are not errors, each with its reason.
func variables() map[string]string {
	const (
		table    = "a table that nobody writes to"
		early    = "written before the runtime starts, and only read by it"
		embedded = "a file that the compiler puts there"
	)
	return map[string]string{
		"internal/cli.version":          "set by the linker",
		"internal/cli.commit":           "set by the linker",
		"internal/cli.date":             "set by the linker",
		"internal/cli.bashCompletion":   embedded,
		"internal/cli.zshCompletion":    embedded,
		"internal/cli.fishCompletion":   embedded,
		"internal/cli.table":            table,
		"internal/cli.jsonFlags":        table,
		"internal/cli.psFlags":          table,
		"internal/cli.reapFlags":        table,
		"internal/cli.stopFlags":        table,
		"internal/cli.historyFlags":     table,
		"internal/cli.restartFlags":     table,
		"internal/cli.wrapFlags":        table,
		"internal/waiting.early":        early,
		"internal/clients.knownClients": table,
		"internal/clients.codeDirs":     table,
		"internal/clients.projectFiles": table,
		"internal/clients.byParent":     table,
		"internal/clients.runners":      table,
		"internal/clients.valueFlags":   table,
		"internal/clients.tables":       table,
		"internal/proc.launchers":       table,
		"internal/proc.shells":          table,
		"internal/session.secretWords":  table,
		"internal/argv.Run":             table,
		"internal/front.phaseTable":     table,
		"internal/teardown.table":       table,
	}
}

// source is one Go file of the product; tests and tools are not.
type source struct {
	name, dir string // dir relative to the root
	file      *ast.File
	fset      *token.FileSet
}

func product(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	for dir := range floors() {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, source{name, dir, file, fset})
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d files were found", len(out))
	}
	return out
}

func (s source) at(n ast.Node) token.Position { return s.fset.Position(n.Pos()) }

func TestImportsPointDown(t *testing.T) {
	for _, s := range product(t) {
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if path == "C" || path == "unsafe" && !slices.Contains([]string{"internal/proc", "internal/waiting"}, s.dir) {
				t.Errorf("%s: import of %s", s.at(spec), path)
			}
			for library, in := range libraries() {
				if strings.HasPrefix(path, library) && !slices.Contains(in, s.dir) {
					t.Errorf("%s: %s belongs in %v", s.at(spec), path, in)
				}
			}
			room, ours := strings.CutPrefix(path, "mcp-tether/")
			if !ours {
				continue
			}
			if floor, known := floors()[room]; !known || floor >= floors()[s.dir] {
				t.Errorf("%s: %s must not import %s", s.at(spec), s.dir, room)
			}
		}
	}
}

// Every directory with Go files is a room that has its floor, or a tool or test.
func TestEveryPackageHasItsFloor(t *testing.T) {
	outside := []string{"e2e", "e2e/fixture", "e2e/stage", "e2e/testkit", "scripts/bench", "scripts/demo", "scripts/peers", "scripts/soak", "scripts/torture"}
	walk(t, func(name string) {
		dir := filepath.Dir(name)
		if _, known := floors()[dir]; filepath.Ext(name) == ".go" && !known && !slices.Contains(outside, dir) {
			t.Errorf("%s: no floor is given for %s", name, dir)
		}
	})
}

// Shared test code is in no program: what is shipped imports neither testkit nor stage.
func TestNoRoomImportsTheTestkit(t *testing.T) {
	importers := 0
	walk(t, func(name string) {
		if filepath.Ext(name) != ".go" {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		_, room := floors()[filepath.Dir(name)]
		for _, spec := range file.Imports {
			if path := spec.Path.Value; path != `"mcp-tether/e2e/testkit"` && path != `"mcp-tether/e2e/stage"` {
				continue
			}
			importers++
			if room && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s is no test, and imports %s", name, spec.Path.Value)
			}
		}
	})
	if importers < 10 {
		t.Errorf("only %d files import them", importers)
	}
}

// The kernel's files are read in four packages only, where errors are told apart in one place.
func TestKernelFilesAreReadInTheirRooms(t *testing.T) {
	kernel := regexp.MustCompile(`^/(proc|sys)(/|$)`)
	for _, s := range product(t) {
		if slices.Contains([]string{"internal/proc", "internal/evidence", "cgroup", "internal/waiting"}, s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil && kernel.MatchString(text) {
				t.Errorf("%s: %s belongs in proc, evidence, cgroup or waiting", s.at(lit), lit.Value)
			}
			return true
		})
	}
}

// byPath lists the calls that may reach a file by its path in a room that reads what users control, each with its
// reason. Everything below a directory of a user is reached by the directory's descriptor (proc.Dir, cgroup.Leaf). A
// path may lead elsewhere from one call to the next.
func byPath() map[string]string {
	const (
		opens  = "opens the directory itself, without a link for its last part, after a check of its owner and mode"
		names  = "reads names only, of a directory that belongs to root"
		kernel = "the kernel's own file"
		own    = "a path that the user of this pass gives, with that user's rights"
		mine   = own + "; only for a file of that user in a directory of that user or root"
	)
	return map[string]string{
		"internal/session.openPrivate/unix.Mkdir":   "makes the directory or fails: mkdir(2) follows no link there",
		"internal/session.openBelow/unix.Mkdir":     "makes the directory or fails: mkdir(2) follows no link there",
		"internal/session.openOwn/proc.Look":        opens,
		"internal/session.openOwn/proc.OpenDir":     opens,
		"internal/session.isMount/proc.Look":        "whether another user has mounted something there",
		"internal/session.hasDir/proc.Look":         "whose a directory is; nothing is opened",
		"internal/session.belongsTo/unix.Stat":      "whose a runtime directory is; what is opened below it is checked by itself",
		"internal/session.unmakeable/unix.Access":   "whether a runtime directory can be written; nothing is opened",
		"internal/session.Users/os.ReadDir":         names,
		"cgroup.Find/proc.Read":                     kernel,
		"cgroup.Current/proc.Read":                  kernel,
		"cgroup.Has/proc.Read":                      kernel,
		"cgroup.missing/proc.Read":                  kernel,
		"cgroup.walk/filepath.WalkDir":              names + ", or to the user of this pass. A cgroup is no link",
		"cgroup.walk/unix.Lstat":                    "whose a cgroup is; it is opened by itself",
		"cgroup.openCgroup/proc.OpenPath":           "no part of the path is a link, and what is opened is a cgroup",
		"internal/clients.Home/os.Stat":             own,
		"internal/clients.readFile/os.OpenFile":     own + ", or the machine's; without waiting for a writer",
		"reap.Metrics/proc.Replace":                 own,
		"internal/clients.Replace/proc.Replace":     mine,
		"internal/clients.found/filepath.Glob":      own,
		"internal/clients.found/os.Lstat":           own,
		"internal/clients.patterns/os.Stat":         own,
		"internal/clients.listsBelow/filepath.Glob": "the machine's",
		"internal/clients.PlaceOf/os.Stat":          own,
		"internal/clients.OpenDocument/os.Lstat":    mine,
		"internal/clients.OpenDocument/os.OpenFile": mine,
		"internal/clients.ownParent/os.Stat":        mine,
		"internal/clients.InProject/os.Lstat":       own,
	}
}

// pathCalls matches the functions of os, unix, filepath and proc that take a path.
var pathCalls = regexp.MustCompile(`^(os\.(Open|OpenFile|OpenRoot|ReadFile|WriteFile|Stat|Lstat|ReadDir|Remove|RemoveAll|Rename|Mkdir|MkdirAll|Create|CreateTemp|MkdirTemp|Chmod|Chown|Lchown|Symlink|Link|Readlink|Truncate|Chtimes|DirFS)|` +
	`unix\.(Open|Creat|Stat|Lstat|Mkdir|Rmdir|Unlink|Rename|Link|Symlink|Chmod|Chown|Lchown|Readlink|Access|Mknod|Mkfifo|Truncate|Statfs)|` +
	`filepath\.(EvalSymlinks|Glob|Walk|WalkDir)|proc\.(Open|OpenDir|OpenPath|Look|Read|ReadEntry|Replace))$`)

// What a user controls is opened once, and reached by descriptor from there on.
func TestUsersFilesAreReachedByDescriptor(t *testing.T) {
	rooms := []string{"internal/session", "internal/clients", "cgroup", "reap", "internal/live", "internal/argv"}
	used := map[string]bool{}
	for _, s := range product(t) {
		if !slices.Contains(rooms, s.dir) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for call, at := range callsByPath(f) {
				key := s.dir + "." + f.Name.Name + "/" + call
				used[key] = true
				if byPath()[key] == "" {
					t.Errorf("%s: %s reaches a file by its path: use proc.Dir or cgroup.Leaf", s.at(at), key)
				}
			}
		}
	}
	for key := range byPath() {
		if !used[key] {
			t.Errorf("exception %s is not needed any more", key)
		}
	}
	// The control: a call that is not in the list is found.
	const bad = "package x\nfunc f() { os.Remove(a); unix.Unlinkat(unix.AT_FDCWD, b, 0); unix.Unlinkat(d, b, 0); d.Unlink(b) }"
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", bad, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := callsByPath(file.Decls[0].(*ast.FuncDecl)); len(got) != 2 {
		t.Errorf("of two calls by path %v were found", got)
	}
}

// callsByPath are the calls in a function that take a path, or that say AT_FDCWD where a directory is meant.
func callsByPath(f *ast.FuncDecl) map[string]ast.Node {
	out := map[string]ast.Node{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name := selector(n); pathCalls.MatchString(name) {
				out[name] = n
			}
		case *ast.CallExpr:
			if slices.ContainsFunc(n.Args, func(a ast.Expr) bool { return selector(a) == "unix.AT_FDCWD" }) {
				out[selector(n.Fun)] = n
			}
		}
		return true
	})
	return out
}

// selector is "x.f" for the expression x.f.
func selector(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}

// A program that a test writes can be executed at once, whatever other tests fork meanwhile.
func TestTestsWriteProgramsApart(t *testing.T) {
	files := 0
	walk(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, n := range writtenPrograms(file) {
			t.Errorf("%s: os.WriteFile makes a program: use testkit.WriteProgram", fset.Position(n.Pos()))
		}
	})
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
	// The control: of these two, the program is found.
	const bad = "package x\nfunc f() { os.WriteFile(a, b, 0o644); os.WriteFile(a, b, 0o755) }"
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", bad, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := writtenPrograms(file); len(got) != 1 {
		t.Errorf("of one program %d were found", len(got))
	}
}

// writtenPrograms are the calls of os.WriteFile with a mode that lets a file be executed.
func writtenPrograms(file *ast.File) (out []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || selector(call.Fun) != "os.WriteFile" {
			return true
		}
		if mode, ok := call.Args[2].(*ast.BasicLit); ok {
			if bits, err := strconv.ParseUint(mode.Value, 0, 32); err == nil && bits&0o111 != 0 {
				out = append(out, call)
			}
		}
		return true
	})
	return out
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range product(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init function", s.at(f))
			}
		}
	}
}

func TestNoPackageState(t *testing.T) {
	used := map[string]bool{}
	for _, s := range product(t) {
		for _, d := range s.file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, spec := range decl.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					full := strings.TrimPrefix(s.dir+"."+name.Name, "..")
					used[full] = true
					if name.Name == "_" || variables()[full] != "" || i < len(v.Values) && makesError(v.Values[i]) {
						continue
					}
					t.Errorf("%s: package-level variable %s", s.at(name), full)
				}
			}
		}
	}
	for name := range variables() {
		if !used[name] {
			t.Errorf("exception %s is not needed any more", name)
		}
	}
}

func makesError(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && (x.Name == "errors" && f.Sel.Name == "New" || x.Name == "fmt" && f.Sel.Name == "Errorf")
}

// A table stays as it was written: nothing in its package assigns to it.
func TestTablesAreNotWritten(t *testing.T) {
	for _, s := range product(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			var written []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					written = n.Lhs
				}
			case *ast.IncDecStmt:
				written = []ast.Expr{n.X}
			}
			for _, e := range written {
				if name := s.dir + "." + root(e); strings.HasPrefix(variables()[name], "a table") {
					t.Errorf("%s: %s is written to", s.at(e), name)
				}
			}
			return true
		})
	}
}

// root is the variable that an expression such as a[i].f is a part of.
func root(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return root(e.X)
	}
	return ""
}

// walk visits every file that is, or is about to be, part of the repository.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case d.Type().IsRegular():
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
