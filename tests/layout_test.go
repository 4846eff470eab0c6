// Package tests tests dpsidecar from outside: the layout of the repository (layout_test.go, docs_test.go),
// and the whole system end to end on a private Postgres (the other files).
package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dpsidecar/internal/version"
)

const (
	root   = ".."
	module = "dpsidecar"
)

// mayImport is the dependency direction: the packages of this module that each
// package may import. cmd -> job -> { arrowio, ledger, dpsco }, arrowio -> dpsco/table, and inside
// dpsco { dpsco, describe, score, moments } -> plan -> { release, table }, mean -> mech -> privacy,
// solve -> prox and { linalg, magnitude } -> numeric.
// Whoever adds a package says here where it stands.
var mayImport = map[string][]string{
	"cmd/dpsidecar":                {"internal/admin", "internal/audit", "internal/demo", "internal/dev", "internal/privacy", "internal/experiment", "internal/install", "internal/job", "internal/ledger", "internal/version", "sql", "internal/spill"},
	"internal/admin":               {"internal/job"},
	"internal/arrowio":             {"internal/dpsco/table", "internal/mech"},
	"internal/audit":               {"internal/catalogue", "internal/dpsco", "internal/dpsco/table", "internal/dpsco/loss", "internal/dpsco/mean", "internal/mech", "internal/mech/expmech", "internal/mech/objpert", "internal/privacy", "internal/dpsco/prox", "internal/dpsco/solve", "internal/dpsco/plan", "internal/dpsco/release"},
	"internal/catalogue":           {},
	"internal/demo":                {"internal/dev", "internal/progress"},
	"internal/dev":                 {"internal/install", "internal/job", "internal/localpg", "sql"},
	"internal/dpsco":               {"internal/catalogue", "internal/simd", "internal/dpsco/internal/hook", "internal/dpsco/table", "internal/dpsco/linalg", "internal/dpsco/loss", "internal/dpsco/magnitude", "internal/dpsco/mean", "internal/dpsco/numeric", "internal/mech", "internal/mech/expmech", "internal/mech/objpert", "internal/privacy", "internal/dpsco/prox", "internal/dpsco/solve", "internal/sqlsum", "internal/dpsco/histogram", "internal/dpsco/plan", "internal/dpsco/release"},
	"internal/dpsco/describe":      {"internal/dpsco/magnitude", "internal/dpsco/numeric", "internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/table", "internal/mech", "internal/privacy"},
	"internal/dpsco/histogram":     {"internal/dpsco/magnitude", "internal/dpsco/numeric", "internal/dpsco/table", "internal/mech", "internal/sqlsum"},
	"internal/dpsco/internal/hook": {},
	"internal/dpsco/linalg":        {"internal/dpsco/numeric", "internal/dpsco/prox"},
	"internal/dpsco/loss":          {},
	"internal/dpsco/magnitude":     {"internal/dpsco/numeric", "internal/mech"},
	"internal/dpsco/mean":          {"internal/mech", "internal/privacy"},
	"internal/dpsco/moments":       {"internal/dpsco/numeric", "internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/table", "internal/mech", "internal/privacy"},
	"internal/dpsco/numeric":       {},
	"internal/dpsco/plan":          {"internal/catalogue", "internal/dpsco/release", "internal/dpsco/table", "internal/mech", "internal/privacy"},
	"internal/dpsco/plan/plantest": {"internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/table", "internal/mech/mechtest", "internal/privacy"}, // for tests: nothing else imports it
	"internal/dpsco/prox":          {},
	"internal/dpsco/release":       {"internal/dpsco/numeric"},
	"internal/dpsco/score":         {"internal/dpsco/histogram", "internal/dpsco/linalg", "internal/dpsco/magnitude", "internal/dpsco/numeric", "internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/table", "internal/mech", "internal/privacy"},
	"internal/dpsco/solve":         {"internal/dpsco/prox"},
	"internal/dpsco/table":         {"internal/dpsco/internal/hook", "internal/mech", "internal/simd", "internal/sqlsum"},
	"internal/experiment":          {"internal/catalogue", "internal/dpsco", "internal/dpsco/table", "internal/mech", "internal/privacy", "internal/progress", "internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/describe", "internal/dpsco/score", "internal/dpsco/moments"},
	"internal/install":             {"internal/version", "sql"},
	"internal/job":                 {"internal/catalogue", "internal/arrowio", "internal/dpsco", "internal/dpsco/table", "internal/mech", "internal/privacy", "internal/ledger", "sql", "internal/spill", "internal/sqlsum", "internal/dpsco/plan", "internal/dpsco/release", "internal/dpsco/describe", "internal/dpsco/score", "internal/dpsco/moments"},
	"internal/ledger":              {"internal/privacy"},
	"internal/localpg":             {},
	"internal/localpg/installed":   {"internal/localpg"},
	"internal/mech":                {"internal/simd", "internal/mech/internal/hook", "internal/privacy"},
	"internal/mech/expmech":        {"internal/mech", "internal/privacy"},
	"internal/mech/internal/hook":  {},
	"internal/mech/mechtest":       {"internal/mech", "internal/mech/internal/hook"}, // for tests: nothing else imports it
	"internal/mech/objpert":        {"internal/mech", "internal/mech/internal/hook", "internal/privacy"},
	"internal/privacy":             {},
	"internal/progress":            {},
	"internal/simd":                {},
	"internal/spill":               {},
	"internal/sqlsum":              {},
	"internal/version":             {},
	"scripts/demosvg":              {},
	"scripts/mutants":              {},
	"scripts/sbom":                 {},
	"sql":                          {"internal/catalogue"},
}

// mayUse names the only production files that may import a package: randomness
// that a test can repeat must not reach a mechanism.
var mayUse = map[string][]string{
	"math/rand": {},
	"math/rand/v2": {"internal/mech/mechtest/mechtest.go", "internal/dpsco/plan/plantest/tables.go", "internal/dpsco/plan/plantest/records.go",
		"internal/experiment/task.go", "internal/experiment/papers.go", "internal/experiment/score.go", "internal/experiment/synthetic.go", "internal/experiment/real.go", "internal/experiment/windows.go", // generated tables
		"internal/experiment/compare.go", "internal/experiment/coverage.go", "internal/experiment/misfits.go", "internal/experiment/peers.go", "internal/experiment/tables.go"}, // and peers with noise in floating point
	"testing": {"internal/dpsco/plan/plantest/plantest.go", "internal/mech/mechtest/mechtest.go", "internal/localpg/testing.go"},
}

// source is a Go file of this module; its name is relative to the root.
type source struct {
	name string
	file *ast.File
}

func (s source) pkg() string  { return path.Dir(s.name) }
func (s source) test() bool   { return strings.HasSuffix(s.name, "_test.go") }
func (s source) beside() bool { return strings.HasPrefix(s.name, "tests/") }

// sources parses every Go file of the module, but not of the modules inside it.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || isModule(name)) {
			return fs.SkipDir
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments)
		all = append(all, source{name, file})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(root, dir, "go.mod"))
	return err == nil
}

func imports(f *ast.File) []string {
	var paths []string
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		paths = append(paths, p)
	}
	return paths
}

// wrongImports lists the imports of production files that break a rule.
func wrongImports(all []source) (wrong []string) {
	for _, s := range all {
		if s.test() || s.beside() {
			continue
		}
		allowed, known := mayImport[s.pkg()]
		if stranger := s.pkg() + ": say in mayImport what it may import"; !known && !slices.Contains(wrong, stranger) {
			wrong = append(wrong, stranger)
		}
		for _, p := range imports(s.file) {
			if inner, ours := strings.CutPrefix(p, module+"/"); known && ours && !slices.Contains(allowed, inner) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s", s.name, inner))
			}
			if files, limited := mayUse[p]; limited && !slices.Contains(files, s.name) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s", s.name, p))
			}
		}
	}
	return wrong
}

func TestDependencyDirection(t *testing.T) {
	for _, w := range wrongImports(sources(t)) {
		t.Error(w)
	}
}

// The check above must notice a package that looks the wrong way.
func TestDependencyDirectionIsChecked(t *testing.T) {
	for name, text := range map[string]string{
		"internal/privacy/x.go":    `import "dpsidecar/internal/mech"`,
		"internal/arrowio/x.go":    `import "dpsidecar/internal/job"`,
		"internal/dpsco/mean/x.go": `import "math/rand/v2"`,
		"internal/ledger/x.go":     `import "testing"`,
		"internal/stray/x.go":      ``,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), name, "package x\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(wrongImports([]source{{name, file}})) != 1 {
			t.Errorf("%s may do: %s", name, text)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	commented := map[string]bool{}
	for _, s := range sources(t) {
		commented[s.pkg()] = commented[s.pkg()] || s.file.Doc != nil
	}
	for pkg, ok := range commented {
		if !ok {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

var migrationName = regexp.MustCompile(`^(\d{3})_[a-z_]+\.(up|down)\.sql$`)

func TestMigrationsAreContiguousPairs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "sql", "migrations", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no migrations")
	}
	const first = 10
	for i, file := range files { // sorted: 010 down, 010 up, 011 down, ...
		m := migrationName.FindStringSubmatch(filepath.Base(file))
		if m == nil {
			t.Errorf("%s is not named like 010_roles.up.sql", file)
			continue
		}
		if want := fmt.Sprintf("%03d", first+i/2); m[1] != want || m[2] != []string{"down", "up"}[i%2] {
			t.Errorf("%s stands where %s is expected: a gap, a duplicate or no pair", file, want)
		}
		if i%2 == 1 && strings.TrimSuffix(file, ".up.sql") != strings.TrimSuffix(files[i-1], ".down.sql") {
			t.Errorf("%s and %s are no pair", files[i-1], file)
		}
	}
}

// The changelog tells of the version that the tree becomes, and packages take it from
// the same place.
func TestTheVersionIsToldOnce(t *testing.T) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if first := regexp.MustCompile(`(?m)^## \[([^\]]+)\]`).FindSubmatch(changelog); first == nil || string(first[1]) != version.Number {
		t.Errorf("the changelog begins with %q, the version is %s", first, version.Number)
	}
}
