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

// The package's comment names every file, by its name or a pattern, and no file that is not there.
func TestThePackageCommentNamesEveryFile(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "dpsco.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{} // whether there is such a file
	for _, line := range regexp.MustCompile(`(?m)^\t[a-z0-9_*]+(, [a-z0-9_*]+)*`).FindAllString(f.Doc.Text(), -1) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), ", ") {
			names[name] = false
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		file, known := strings.TrimSuffix(file, ".go"), false
		for name := range names {
			if match, _ := filepath.Match(name, file); match {
				names[name], known = true, true
			}
		}
		if !known && !strings.HasSuffix(file, "_test") {
			t.Errorf("the comment does not name %s.go", file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			t.Errorf("there is no %s.go", name)
		}
	}
}
