package dpsco

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The comments of the large packages name every file, by its name or a pattern, and no file that is not there.
func TestThePackageCommentNamesEveryFile(t *testing.T) {
	for _, of := range []string{"doc.go", "magnitude/bins.go", "table/table.go", "plan/plan.go", "histogram/histogram.go", "describe/describe.go", "score/score.go", "../job/doc.go", "../mech/doc.go", "../privacy/doc.go", "../mech/expmech/expmech.go"} {
		testTheCommentNamesEveryFile(t, of)
	}
}

func testTheCommentNamesEveryFile(t *testing.T, of string) {
	f, err := parser.ParseFile(token.NewFileSet(), of, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{} // whether there is such a file
	for _, line := range regexp.MustCompile(`(?m)^\t[a-z0-9_*]+(, [a-z0-9_*]+)*`).FindAllString(f.Doc.Text(), -1) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), ", ") {
			names[name] = false
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(of), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		file, known := strings.TrimSuffix(filepath.Base(file), ".go"), file == of
		for name := range names {
			if match, _ := filepath.Match(name, file); match {
				names[name], known = true, true
			}
		}
		if !known && !strings.HasSuffix(file, "_test") {
			t.Errorf("the comment in %s does not name %s.go", of, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			t.Errorf("the comment in %s names %s.go, which is not there", of, name)
		}
	}
}
